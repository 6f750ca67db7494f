// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/common.hpp"
#include "nn/ops/pool.hpp"

namespace surefit {
namespace {

// Over height and width, by the mean or the largest.
class GlobalPoolingImpl final : public LayerImpl {
 public:
  GlobalPoolingImpl(const std::string& data_format, bool keepdims, bool largest)
      : keepdims_(keepdims), largest_(largest) {
    require_channels_last(data_format);
  }
  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 3, "a picture (height, width, channels)");
    return keepdims_ ? Shape{1, 1, inputs[0][2]} : Shape{inputs[0][2]};
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const auto op = largest_
                        ? make_global_max_pool_op(builder.type(inputs[0]).shape, builder.training())
                        : make_global_average_pool_op();
    const ValueId row = builder.emit(op, {inputs[0]})[0];
    return keepdims_ ? as_picture(builder, row) : row;
  }

 private:
  bool keepdims_, largest_;
};

}  // namespace

LayerPtr make_layer(const GlobalAveragePooling2D& spec) {
  return std::make_shared<GlobalPoolingImpl>(spec.data_format, spec.keepdims, false);
}
LayerPtr make_layer(const GlobalMaxPooling2D& spec) {
  return std::make_shared<GlobalPoolingImpl>(spec.data_format, spec.keepdims, true);
}

}  // namespace surefit
