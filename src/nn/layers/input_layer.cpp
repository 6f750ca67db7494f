// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"
#include "nn/layer.hpp"

namespace surefit {
namespace {

class InputImpl final : public LayerImpl {
 public:
  explicit InputImpl(const InputLayer& spec) : shape_(std::vector<std::int64_t>(spec.shape)) {
    for (const std::int64_t extent : shape_.dims()) {
      if (extent < 1) {
        throw ConfigError(fmt::format("[InputLayer] shape must be fixed and positive; got {}",
                                      shape_.to_string()));
      }
    }
  }
  Shape infer(std::span<const Shape> inputs) const override {
    if (!inputs.empty()) throw ConfigError("an input layer takes no input");
    return shape_;
  }
  ValueId build(LayerBuilder&, std::span<const ValueId>) const override {
    throw InternalError("[InputLayer] inputs are made by the network");
  }

 private:
  Shape shape_;
};

}  // namespace

LayerPtr make_layer(const InputLayer& spec) {
  return std::make_shared<InputImpl>(spec);
}

}  // namespace surefit
