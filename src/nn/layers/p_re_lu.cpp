// SPDX-License-Identifier: Apache-2.0
// He et al. 2015: y = x above 0, alpha x below.
#include <algorithm>
#include <fmt/format.h>

#include "nn/layers/common.hpp"
#include "nn/ops/kernel.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

// Which alpha belongs to which element of a plain sample.
struct Sharing {
  ValueType type;
  Shape alphas;
  std::vector<std::int64_t> index;  // per element; made once
};

Sharing share(const Shape& shape, const std::vector<std::int64_t>& axes) {
  Sharing sharing;
  sharing.type.shape = shape;
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  for (const std::int64_t axis : axes) dims[static_cast<std::size_t>(axis - 1)] = 1;
  sharing.alphas = Shape(dims);
  sharing.index.resize(shape.count());
  for (std::size_t i = 0; i < sharing.index.size(); ++i) {
    std::int64_t at = 0, step = 1;
    auto rest = static_cast<std::int64_t>(i);
    for (std::size_t axis = dims.size(); axis-- > 0; rest /= shape[axis]) {
      at += dims[axis] == 1 ? 0 : rest % shape[axis] * step;
      step *= dims[axis];
    }
    sharing.index[i] = at;
  }
  return sharing;
}

// Inputs: x, alpha, and in the backward passes the gradient behind x.
std::shared_ptr<const Op> make_prelu_op(const Sharing& sharing) {
  const auto index = std::make_shared<const std::vector<std::int64_t>>(sharing.index);
  const auto run = [index](const Task& task) {
    const float* alpha = task.inputs[1].at();
    for (std::int64_t n = task.begin; n < task.end; ++n) {
      const float* x = task.inputs[0].at(n);
      float* y = task.outputs[0].at(n);
      for (std::size_t i = 0; i < index->size(); ++i)
        y[i] = x[i] < 0 ? x[i] * alpha[(*index)[i]] : x[i];
    }
  };
  const auto backward = [index](const Task& task) {
    const float* alpha = task.inputs[1].at();
    for (std::int64_t n = task.begin; n < task.end; ++n) {
      const float* x = task.inputs[0].at(n);
      const float* dy = task.inputs[2].at(n);
      float* dx = task.outputs[0].at(n);
      for (std::size_t i = 0; i < index->size(); ++i)
        dx[i] = x[i] < 0 ? dy[i] * alpha[(*index)[i]] : dy[i];
    }
  };
  const std::size_t count = sharing.alphas.count();
  const auto backward_alpha = [index, count](const Task& task) {
    auto* sums = reinterpret_cast<double*>(task.thread_scratch);
    float* to = task.outputs[0].at();
    for (std::int64_t n = task.begin; n < task.end; ++n) {
      const float* x = task.inputs[0].at(n);
      const float* dy = task.inputs[1].at(n);
      std::fill_n(sums, count, 0.0);
      for (std::size_t i = 0; i < index->size(); ++i) {
        if (x[i] < 0) sums[(*index)[i]] += static_cast<double>(x[i]) * static_cast<double>(dy[i]);
      }
      for (std::size_t i = 0; i < count; ++i)
        to[i] = static_cast<float>(n == 0 ? sums[i] : static_cast<double>(to[i]) + sums[i]);
    }
  };
  const auto gradient = [=, type = sharing.type](GradientBuilder& builder) {
    const ValueId dy = builder.output_gradient(0);
    if (builder.wants(1)) {
      builder.set_input_gradient(
          1, builder.emit1(
                 make_reduction_op({.kind = "prelu_backward_alpha",
                                    .outputs = {vector_type(static_cast<std::int64_t>(count))},
                                    .layout = Layout::kPlain,
                                    .flops_per_sample = static_cast<double>(index->size()) * 2,
                                    .thread_scratch_bytes = count * sizeof(double),
                                    .run = backward_alpha}),
                 {builder.input(0), dy}, Category::kGradients));
    }
    if (!builder.wants(0)) return;
    builder.set_input_gradient(0, builder.emit1(make_sample_op({.kind = "prelu_backward",
                                                                .outputs = {type},
                                                                .layout = Layout::kPlain,
                                                                .run = backward}),
                                                {builder.input(0), builder.input(1), dy}));
  };
  return make_sample_op({.kind = "prelu",
                         .outputs = {sharing.type},
                         .layout = Layout::kPlain,
                         .run = run,
                         .gradient = gradient});
}

class PReLUImpl final : public LayerImpl {
 public:
  explicit PReLUImpl(const PReLU& spec) : spec_(spec) {
    check_regularizer(spec.alpha_regularizer);
    check_constraint(spec.alpha_constraint);
  }
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() == 0) throw ConfigError("expected one input");
    for (const std::int64_t axis : spec_.shared_axes.values) {
      if (axis >= 1 && axis <= static_cast<std::int64_t>(inputs[0].rank())) continue;
      throw ConfigError(
          fmt::format("shared_axes; expected 1 to {}; got {}", inputs[0].rank(), axis));
    }
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const Sharing sharing = share(builder.type(inputs[0]).shape, spec_.shared_axes.values);
    const ValueId alpha = builder.parameter({.name = "alpha",
                                             .shape = sharing.alphas,
                                             .initializer = spec_.alpha_initializer,
                                             .regularizer = spec_.alpha_regularizer,
                                             .constraint = spec_.alpha_constraint});
    return builder.emit1(make_prelu_op(sharing), {inputs[0], alpha});
  }

 private:
  PReLU spec_;
};

}  // namespace

LayerPtr make_layer(const PReLU& spec) {
  return std::make_shared<PReLUImpl>(spec);
}

}  // namespace surefit
