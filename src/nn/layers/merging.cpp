// SPDX-License-Identifier: Apache-2.0
// Layers that combine their inputs element by element.
#include <fmt/format.h>

#include "nn/layers/common.hpp"
#include "nn/ops/activation.hpp"
#include "nn/ops/merge.hpp"

namespace surefit {
namespace {

class MergeImpl final : public LayerImpl {
 public:
  explicit MergeImpl(MergeKind kind) : kind_(kind) {}
  Shape infer(std::span<const Shape> inputs) const override {
    const bool pair = kind_ == MergeKind::kSubtract;
    if (inputs.size() < 2 || (pair && inputs.size() > 2)) {
      throw ConfigError(
          fmt::format("expected two inputs{}; got {}", pair ? "" : " or more", inputs.size()));
    }
    const std::optional<Shape> shape = broadcast_shape(inputs);
    if (!shape) {
      std::string text;
      for (const Shape& input : inputs) text += (text.empty() ? "" : " and ") + input.to_string();
      throw ConfigError(fmt::format("inputs differ in shape: {}", text));
    }
    return *shape;
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    std::vector<Shape> shapes;
    bool alike = true;
    for (const ValueId id : inputs) {
      shapes.push_back(builder.type(id).shape);
      alike = alike && shapes.back() == shapes[0];
    }
    const std::vector<ValueId> operands(inputs.begin(), inputs.end());
    // Sums of like shapes have a node of their own that others can absorb.
    if (kind_ == MergeKind::kAdd && alike)
      return builder.emit1(std::make_shared<AddOp>(inputs.size()), operands);
    return builder.emit1(make_merge_op(kind_, shapes), operands);
  }

 private:
  MergeKind kind_;
};

}  // namespace

LayerPtr make_layer(const Add&) {
  return std::make_shared<MergeImpl>(MergeKind::kAdd);
}
LayerPtr make_layer(const Multiply&) {
  return std::make_shared<MergeImpl>(MergeKind::kMultiply);
}
LayerPtr make_layer(const Subtract&) {
  return std::make_shared<MergeImpl>(MergeKind::kSubtract);
}
LayerPtr make_layer(const Average&) {
  return std::make_shared<MergeImpl>(MergeKind::kAverage);
}
LayerPtr make_layer(const Maximum&) {
  return std::make_shared<MergeImpl>(MergeKind::kMaximum);
}
LayerPtr make_layer(const Minimum&) {
  return std::make_shared<MergeImpl>(MergeKind::kMinimum);
}

}  // namespace surefit
