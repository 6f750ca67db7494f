// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "nn/layers/common.hpp"

namespace surefit {
namespace {

class SoftmaxImpl final : public LayerImpl {
 public:
  explicit SoftmaxImpl(const Softmax& spec) : spec_(spec) {}
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() == 0) throw ConfigError("expected one input");
    if (spec_.axis != -1 && spec_.axis != static_cast<int>(inputs[0].rank())) {
      throw ConfigError(fmt::format("axis; expected the last, -1; got {}", spec_.axis));
    }
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    return emit_activation(builder, "softmax", inputs[0]);
  }

 private:
  Softmax spec_;
};

}  // namespace

LayerPtr make_layer(const Softmax& spec) {
  return std::make_shared<SoftmaxImpl>(spec);
}

}  // namespace surefit
