// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/common.hpp"
#include "nn/ops/resize.hpp"

namespace surefit {
namespace {

class ZeroPadding2DImpl final : public LayerImpl {
 public:
  explicit ZeroPadding2DImpl(const ZeroPadding2D& spec) : pad_(spec.padding) {
    require_channels_last(spec.data_format);
    check_sides("[ZeroPadding2D] padding", pad_);
  }
  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 3, "a picture (height, width, channels)");
    return Shape{inputs[0][0] + pad_.top + pad_.bottom, inputs[0][1] + pad_.left + pad_.right,
                 inputs[0][2]};
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const bool outer = builder.graph().value(inputs[0]).origin == Origin::kInput;
    return builder.emit1(make_pad_op(pad_, outer), {inputs[0]});
  }

 private:
  Sides pad_;
};

}  // namespace

LayerPtr make_layer(const ZeroPadding2D& spec) {
  return std::make_shared<ZeroPadding2DImpl>(spec);
}

}  // namespace surefit
