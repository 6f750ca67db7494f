// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "nn/layers/common.hpp"
#include "nn/ops/resize.hpp"

namespace surefit {
namespace {

class Cropping2DImpl final : public LayerImpl {
 public:
  explicit Cropping2DImpl(const Cropping2D& spec) : crop_(spec.cropping) {
    require_channels_last(spec.data_format);
    check_sides("[Cropping2D] cropping", crop_);
  }
  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 3, "a picture (height, width, channels)");
    const std::int64_t height = inputs[0][0] - crop_.top - crop_.bottom;
    const std::int64_t width = inputs[0][1] - crop_.left - crop_.right;
    if (height < 1 || width < 1) {
      throw ConfigError(fmt::format("cropping; expected to leave a pixel of {}; got {}x{}",
                                    inputs[0].to_string(), height, width));
    }
    return Shape{height, width, inputs[0][2]};
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    return builder.emit1(make_crop_op(builder.type(inputs[0]), crop_), {inputs[0]});
  }

 private:
  Sides crop_;
};

}  // namespace

LayerPtr make_layer(const Cropping2D& spec) {
  return std::make_shared<Cropping2DImpl>(spec);
}

}  // namespace surefit
