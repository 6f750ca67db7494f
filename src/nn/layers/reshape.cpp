// SPDX-License-Identifier: Apache-2.0
// Reshape and Permute, on plain values.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "nn/layers/common.hpp"
#include "nn/ops/kernel.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

class ReshapeImpl final : public LayerImpl {
 public:
  explicit ReshapeImpl(const Reshape& spec) : spec_(spec) {
    const bool bad = std::any_of(
        spec.target_shape.begin(), spec.target_shape.end(),
        [](std::int64_t extent) { return extent < -1 || extent == 0 || extent > 1 << 28; });
    if (bad || spec.target_shape.empty() ||
        std::count(spec.target_shape.begin(), spec.target_shape.end(), -1) > 1) {
      throw ConfigError(fmt::format(
          "[Reshape] target_shape; expected positive extents and at most one -1; got ({})",
          fmt::join(spec.target_shape, ", ")));
    }
  }
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1) throw ConfigError("expected one input");
    const auto count = static_cast<double>(inputs[0].count());
    double known = 1;
    for (const std::int64_t extent : spec_.target_shape)
      known *= extent == -1 ? 1 : static_cast<double>(extent);
    std::vector<std::int64_t> dims = spec_.target_shape;
    const auto open = std::find(dims.begin(), dims.end(), -1);
    if (open != dims.end() && known <= count &&
        static_cast<std::int64_t>(count) % static_cast<std::int64_t>(known) == 0) {
      *open = static_cast<std::int64_t>(count) / static_cast<std::int64_t>(known);
      known = count;
    }
    if (known != count) {
      throw ConfigError(fmt::format("target_shape; expected {} elements like {}; got ({})",
                                    inputs[0].count(), inputs[0].to_string(),
                                    fmt::join(spec_.target_shape, ", ")));
    }
    return Shape(std::move(dims));
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const ValueId plain =
        builder.graph().in_layout(inputs[0], Layout::kPlain, builder.name(), Phase::kForward);
    const Shape from = builder.type(plain).shape;
    ValueType type;
    type.shape = infer(std::span(&from, 1));
    return builder.graph().add_view(plain, type, builder.name() + "/reshaped");
  }

 private:
  Reshape spec_;
};

// Output axis i is input axis order[i].
std::shared_ptr<const Op> make_permute_op(const Shape& shape,
                                          const std::vector<std::size_t>& order) {
  std::vector<std::int64_t> strides(shape.rank(), 1), dims, steps;
  for (std::size_t i = shape.rank() - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
  std::vector<std::size_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    dims.push_back(shape[order[i]]);
    steps.push_back(strides[order[i]]);
    back[order[i]] = i;
  }
  ValueType output;
  output.shape = Shape(dims);
  const auto run = [dims, steps, count = output.shape.count()](const Task& task) {
    for (std::int64_t n = task.begin; n < task.end; ++n) {
      const float* x = task.inputs[0].at(n);
      float* y = task.outputs[0].at(n);
      for (std::size_t i = 0; i < count; ++i) {
        std::int64_t from = 0;
        auto rest = static_cast<std::int64_t>(i);
        for (std::size_t axis = dims.size(); axis-- > 0; rest /= dims[axis])
          from += rest % dims[axis] * steps[axis];
        y[i] = x[from];
      }
    }
  };
  const auto gradient = [shape = output.shape, back](GradientBuilder& builder) {
    builder.set_input_gradient(
        0, builder.emit1(make_permute_op(shape, back), {builder.output_gradient(0)}));
  };
  return make_sample_op({.kind = "permute",
                         .outputs = {output},
                         .layout = Layout::kPlain,
                         .flops_per_element = 8,
                         .run = run,
                         .gradient = gradient});
}

class PermuteImpl final : public LayerImpl {
 public:
  explicit PermuteImpl(const Permute& spec) : spec_(spec) {
    std::vector<std::int64_t> sorted = spec.dims;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != static_cast<std::int64_t>(i) + 1) sorted.clear();
    }
    if (sorted.empty()) {
      throw ConfigError(fmt::format("[Permute] dims; expected each axis from 1 once; got ({})",
                                    fmt::join(spec.dims, ", ")));
    }
  }
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() != spec_.dims.size()) {
      throw ConfigError(fmt::format("expected one input of {} axes", spec_.dims.size()));
    }
    std::vector<std::int64_t> dims;
    for (const std::int64_t axis : spec_.dims)
      dims.push_back(inputs[0][static_cast<std::size_t>(axis - 1)]);
    return Shape(std::move(dims));
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    std::vector<std::size_t> order;
    for (const std::int64_t axis : spec_.dims) order.push_back(static_cast<std::size_t>(axis - 1));
    return builder.emit1(make_permute_op(builder.type(inputs[0]).shape, order), {inputs[0]});
  }

 private:
  Permute spec_;
};

}  // namespace

LayerPtr make_layer(const Reshape& spec) {
  return std::make_shared<ReshapeImpl>(spec);
}
LayerPtr make_layer(const Permute& spec) {
  return std::make_shared<PermuteImpl>(spec);
}

}  // namespace surefit
