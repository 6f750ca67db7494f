// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/pooling.hpp"
#include "nn/ops/pool.hpp"

namespace surefit {
namespace {

class MaxPooling2DImpl final : public LayerImpl {
 public:
  explicit MaxPooling2DImpl(const MaxPooling2D& spec) : spec_(spec) { check_pooling(spec); }
  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 3, "a picture (height, width, channels)");
    const kernels::PoolShape s = pool_shape(inputs[0], spec_);
    return Shape{s.out_height, s.out_width, inputs[0][2]};
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const auto outputs =
        builder.emit(std::make_shared<MaxPoolOp>(pool_shape(builder.type(inputs[0]).shape, spec_),
                                                 builder.training()),
                     {inputs[0]});
    return outputs[0];
  }

 private:
  MaxPooling2D spec_;
};

}  // namespace

LayerPtr make_layer(const MaxPooling2D& spec) {
  return std::make_shared<MaxPooling2DImpl>(spec);
}

}  // namespace surefit
