// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/common.hpp"

namespace surefit {
namespace {

class ActivationImpl final : public LayerImpl {
 public:
  explicit ActivationImpl(const Activation& spec) : spec_(spec) {
    check_activation(spec.activation);
  }
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() == 0) throw ConfigError("expected one input");
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    return emit_activation(builder, spec_.activation, inputs[0]);
  }

 private:
  Activation spec_;
};

}  // namespace

LayerPtr make_layer(const Activation& spec) {
  return std::make_shared<ActivationImpl>(spec);
}

}  // namespace surefit
