// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"
#include "nn/layers/common.hpp"
#include "nn/ops/activation.hpp"

namespace surefit {
namespace {

class AddImpl final : public LayerImpl {
 public:
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() < 2)
      throw ConfigError(fmt::format("expected two inputs or more; got {}", inputs.size()));
    for (const Shape& shape : inputs) {
      if (shape != inputs[0]) {
        throw ConfigError(fmt::format("inputs differ in shape: {} and {}", inputs[0].to_string(),
                                      shape.to_string()));
      }
    }
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    return builder.emit1(std::make_shared<AddOp>(inputs.size()), {inputs.begin(), inputs.end()});
  }
};

}  // namespace

LayerPtr make_layer(const Add&) {
  return std::make_shared<AddImpl>();
}

}  // namespace surefit
