// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/sample_normalization.hpp"

namespace surefit {
namespace {

class GroupNormalizationImpl final : public LayerImpl {
 public:
  explicit GroupNormalizationImpl(const GroupNormalization& spec) : spec_(spec) {
    check_sample_normalization(spec);
    if (spec.groups < 1 && spec.groups != -1) {
      throw ConfigError(fmt::format(
          "[GroupNormalization] groups; expected 1 or more, or -1; got {}", spec.groups));
    }
  }
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() == 0) throw ConfigError("expected one input");
    const auto rank = static_cast<int>(inputs[0].rank());
    if (spec_.axis != -1 && spec_.axis != rank) {
      throw ConfigError(
          fmt::format("axis; expected the channels, -1 or {}; got {}", rank, spec_.axis));
    }
    const std::int64_t channels = inputs[0][inputs[0].rank() - 1];
    if (spec_.groups > 0 && channels % spec_.groups != 0) {
      throw ConfigError(
          fmt::format("groups; expected a divisor of {} channels; got {}", channels, spec_.groups));
    }
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    SampleNorm norm;
    norm.type.shape = builder.type(inputs[0]).shape;
    norm.channels = norm.columns = norm.type.shape[norm.type.shape.rank() - 1];
    norm.rows = spec_.groups == -1 ? norm.channels : spec_.groups;
    return emit_sample_norm(builder, spec_, norm, Shape{norm.channels}, inputs[0]);
  }

 private:
  GroupNormalization spec_;
};

}  // namespace

LayerPtr make_layer(const GroupNormalization& spec) {
  return std::make_shared<GroupNormalizationImpl>(spec);
}

}  // namespace surefit
