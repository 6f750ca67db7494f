// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "nn/layers/common.hpp"
#include "nn/ops/concat.hpp"

namespace surefit {
namespace {

class ConcatenateImpl final : public LayerImpl {
 public:
  explicit ConcatenateImpl(const Concatenate& spec) : spec_(spec) {}

  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() < 2)
      throw ConfigError(fmt::format("expected two inputs or more; got {}", inputs.size()));
    const std::size_t axis = axis_of(inputs[0]);
    std::vector<std::int64_t> dims(inputs[0].dims().begin(), inputs[0].dims().end());
    dims[axis] = 0;
    for (const Shape& shape : inputs) {
      bool fits = shape.rank() == dims.size();
      for (std::size_t i = 0; fits && i < dims.size(); ++i) fits = i == axis || shape[i] == dims[i];
      if (!fits) {
        throw ConfigError(fmt::format("inputs differ beside axis {}: {} and {}", spec_.axis,
                                      inputs[0].to_string(), shape.to_string()));
      }
      dims[axis] += shape[axis];
    }
    return Shape(std::move(dims));
  }

  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    std::vector<Shape> shapes;
    for (const ValueId id : inputs) shapes.push_back(builder.type(id).shape);
    const std::size_t axis = axis_of(shapes[0]);
    return builder.emit1(make_concat_op(std::move(shapes), axis), {inputs.begin(), inputs.end()});
  }

 private:
  // Of one sample; Keras counts the batch.
  std::size_t axis_of(const Shape& shape) const {
    const int rank = static_cast<int>(shape.rank());
    const int axis = spec_.axis < 0 ? spec_.axis + rank : spec_.axis - 1;
    if (axis < 0 || axis >= rank) {
      throw ConfigError(
          fmt::format("axis; expected 1 to {} or -1 to -{}; got {}", rank, rank, spec_.axis));
    }
    return static_cast<std::size_t>(axis);
  }
  Concatenate spec_;
};

}  // namespace

LayerPtr make_layer(const Concatenate& spec) {
  return std::make_shared<ConcatenateImpl>(spec);
}

}  // namespace surefit
