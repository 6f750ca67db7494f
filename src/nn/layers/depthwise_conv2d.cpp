// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/convolution.hpp"

namespace surefit {
namespace {

class DepthwiseConv2DImpl final : public LayerImpl {
 public:
  explicit DepthwiseConv2DImpl(const DepthwiseConv2D& spec) : spec_(spec) {
    check_depth_multiplier(spec);
    require_channels_last(spec.data_format);
    check_activation(spec.activation);
    check_regularizer(spec.depthwise_regularizer);
    check_regularizer(spec.bias_regularizer);
    require_absent("activity_regularizer", spec.activity_regularizer);
    check_constraint(spec.depthwise_constraint);
    check_constraint(spec.bias_constraint);
  }

  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 3, "a picture (height, width, channels)");
    const kernels::ConvShape s = depthwise_shape(inputs[0], spec_);
    return Shape{s.oh, s.ow, s.oc};
  }

  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const ValueType& input = builder.type(inputs[0]);
    const kernels::ConvShape s = depthwise_shape(input.shape, spec_);
    const ConvAlgorithm algorithm = choose_algorithm(s, input.layout, builder.convolutions());
    const ValueId kernel =
        builder.parameter({.name = "kernel",
                           .shape = Shape{s.kh, s.kw, s.ic, spec_.depth_multiplier},
                           .initializer = spec_.depthwise_initializer,
                           .packing = conv_kernel_packing(s, algorithm),
                           .regularizer = spec_.depthwise_regularizer,
                           .constraint = spec_.depthwise_constraint});
    const ValueId bias = bias_parameter(builder, spec_, s.oc);
    return emit_activation(builder, spec_.activation,
                           emit_conv(builder, s, algorithm, inputs[0], kernel, bias));
  }

 private:
  DepthwiseConv2D spec_;
};

}  // namespace

LayerPtr make_layer(const DepthwiseConv2D& spec) {
  return std::make_shared<DepthwiseConv2DImpl>(spec);
}

}  // namespace surefit
