// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/pooling.hpp"
#include "nn/ops/pool.hpp"

namespace surefit {
namespace {

class AveragePooling2DImpl final : public LayerImpl {
 public:
  explicit AveragePooling2DImpl(const AveragePooling2D& spec) : spec_(spec) { check_pooling(spec); }
  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 3, "a picture (height, width, channels)");
    const kernels::PoolShape s = pool_shape(inputs[0], spec_);
    return Shape{s.out_height, s.out_width, inputs[0][2]};
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    return builder.emit1(make_average_pool_op(pool_shape(builder.type(inputs[0]).shape, spec_)),
                         {inputs[0]});
  }

 private:
  AveragePooling2D spec_;
};

}  // namespace

LayerPtr make_layer(const AveragePooling2D& spec) {
  return std::make_shared<AveragePooling2DImpl>(spec);
}

}  // namespace surefit
