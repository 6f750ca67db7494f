// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "nn/layers/common.hpp"
#include "nn/ops/resize.hpp"

namespace surefit {
namespace {

class UpSampling2DImpl final : public LayerImpl {
 public:
  explicit UpSampling2DImpl(const UpSampling2D& spec) : spec_(spec) {
    require_channels_last(spec.data_format);
    const auto fits = [](int factor) { return factor >= 1 && factor <= 1024; };
    if (!fits(spec.size.h) || !fits(spec.size.w)) {
      throw ConfigError(fmt::format("[UpSampling2D] size; expected 1 to 1024; got {}x{}",
                                    spec.size.h, spec.size.w));
    }
    if (spec.interpolation != "nearest" && spec.interpolation != "bilinear") {
      throw ConfigError(
          fmt::format("[UpSampling2D] interpolation; expected 'nearest' or 'bilinear'; got '{}'",
                      spec.interpolation));
    }
  }
  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 3, "a picture (height, width, channels)");
    return Shape{inputs[0][0] * spec_.size.h, inputs[0][1] * spec_.size.w, inputs[0][2]};
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    return builder.emit1(make_upsample_op(builder.type(inputs[0]).shape, spec_.size,
                                          spec_.interpolation == "bilinear"),
                         {inputs[0]});
  }

 private:
  UpSampling2D spec_;
};

}  // namespace

LayerPtr make_layer(const UpSampling2D& spec) {
  return std::make_shared<UpSampling2DImpl>(spec);
}

}  // namespace surefit
