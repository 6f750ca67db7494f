// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"
#include "nn/layers/common.hpp"
#include "nn/ops/activation.hpp"

namespace surefit {
namespace {

ActivationSpec kernel_of(const ReLU& spec) {
  using kernels::Activation;
  if (spec.threshold != 0)
    throw ConfigError("[ReLU] a threshold other than 0 is not supported yet");
  if (spec.negative_slope < 0) throw ConfigError("[ReLU] negative_slope must not be negative");
  if (!spec.max_value) {
    return spec.negative_slope == 0
               ? ActivationSpec{Activation::kRelu}
               : ActivationSpec{Activation::kLeakyRelu, static_cast<float>(spec.negative_slope)};
  }
  if (*spec.max_value != 6 || spec.negative_slope != 0) {
    throw ConfigError(fmt::format("[ReLU] max_value; expected none or 6 without a slope; got {}",
                                  *spec.max_value));
  }
  return {Activation::kRelu6};
}

class ReLUImpl final : public LayerImpl {
 public:
  explicit ReLUImpl(const ReLU& spec) : spec_(kernel_of(spec)) {}
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1) throw ConfigError("expected one input");
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    return builder.emit1(std::make_shared<ActivationOp>(spec_), {inputs[0]});
  }

 private:
  ActivationSpec spec_;
};

}  // namespace

LayerPtr make_layer(const ReLU& spec) {
  return std::make_shared<ReLUImpl>(spec);
}

}  // namespace surefit
