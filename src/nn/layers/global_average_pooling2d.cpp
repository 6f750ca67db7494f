// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/common.hpp"
#include "nn/ops/pool.hpp"

namespace surefit {
namespace {

class GlobalAveragePooling2DImpl final : public LayerImpl {
 public:
  explicit GlobalAveragePooling2DImpl(const GlobalAveragePooling2D& spec) : spec_(spec) {
    require_channels_last(spec.data_format);
  }
  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 3, "a picture (height, width, channels)");
    return spec_.keepdims ? Shape{1, 1, inputs[0][2]} : Shape{inputs[0][2]};
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const ValueId row = builder.emit1(make_global_average_pool_op(), {inputs[0]});
    return spec_.keepdims ? as_picture(builder, row) : row;
  }

 private:
  GlobalAveragePooling2D spec_;
};

}  // namespace

LayerPtr make_layer(const GlobalAveragePooling2D& spec) {
  return std::make_shared<GlobalAveragePooling2DImpl>(spec);
}

}  // namespace surefit
