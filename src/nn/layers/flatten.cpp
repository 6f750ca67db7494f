// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/common.hpp"

namespace surefit {
namespace {

class FlattenImpl final : public LayerImpl {
 public:
  explicit FlattenImpl(const Flatten& spec) { require_channels_last(spec.data_format); }
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1) throw ConfigError("expected one input");
    return Shape{static_cast<std::int64_t>(inputs[0].count())};
  }
  // A view: the next layer knows how its row came to be.
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    return as_row(builder, inputs[0]);
  }
};

}  // namespace

LayerPtr make_layer(const Flatten& spec) {
  return std::make_shared<FlattenImpl>(spec);
}

}  // namespace surefit
