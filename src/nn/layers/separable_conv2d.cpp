// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/convolution.hpp"

namespace surefit {
namespace {

class SeparableConv2DImpl final : public LayerImpl {
 public:
  explicit SeparableConv2DImpl(const SeparableConv2D& spec) : spec_(spec) {
    check_filters(spec);
    check_depth_multiplier(spec);
    require_channels_last(spec.data_format);
    check_activation(spec.activation);
    check_regularizer(spec.depthwise_regularizer);
    check_regularizer(spec.pointwise_regularizer);
    check_regularizer(spec.bias_regularizer);
    require_absent("activity_regularizer", spec.activity_regularizer);
    check_constraint(spec.depthwise_constraint);
    check_constraint(spec.pointwise_constraint);
    check_constraint(spec.bias_constraint);
  }

  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 3, "a picture (height, width, channels)");
    const kernels::ConvShape s = depthwise_shape(inputs[0], spec_);
    return Shape{s.oh, s.ow, spec_.filters};
  }

  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const ValueType& input = builder.type(inputs[0]);
    const kernels::ConvShape deep = depthwise_shape(input.shape, spec_);
    const ConvAlgorithm first = choose_algorithm(deep, input.layout, builder.convolutions());
    const ValueId depthwise =
        builder.parameter({.name = "depthwise_kernel",
                           .shape = Shape{deep.kh, deep.kw, deep.ic, spec_.depth_multiplier},
                           .initializer = spec_.depthwise_initializer,
                           .packing = conv_kernel_packing(deep, first),
                           .regularizer = spec_.depthwise_regularizer,
                           .constraint = spec_.depthwise_constraint});
    const Conv2D pointwise = {.filters = spec_.filters};
    const kernels::ConvShape mix =
        conv_shape({deep.oh, deep.ow, deep.oc}, pointwise, spec_.filters, 1);
    const ConvAlgorithm second = choose_algorithm(mix, Layout::kBlocked, builder.convolutions());
    const ValueId kernel = builder.parameter({.name = "pointwise_kernel",
                                              .shape = Shape{1, 1, mix.ic, mix.oc},
                                              .initializer = spec_.pointwise_initializer,
                                              .packing = conv_kernel_packing(mix, second),
                                              .regularizer = spec_.pointwise_regularizer,
                                              .constraint = spec_.pointwise_constraint});
    const ValueId bias = bias_parameter(builder, spec_, mix.oc);
    const ValueId between = emit_conv(builder, deep, first, inputs[0], depthwise, kNone);
    return emit_activation(builder, spec_.activation,
                           emit_conv(builder, mix, second, between, kernel, bias));
  }

 private:
  SeparableConv2D spec_;
};

}  // namespace

LayerPtr make_layer(const SeparableConv2D& spec) {
  return std::make_shared<SeparableConv2DImpl>(spec);
}

}  // namespace surefit
