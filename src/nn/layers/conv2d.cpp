// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/convolution.hpp"

namespace surefit {
namespace {

class Conv2DImpl final : public LayerImpl {
 public:
  explicit Conv2DImpl(const Conv2D& spec) : spec_(spec) {
    check_filters(spec);
    if (spec.groups < 1 || spec.filters % spec.groups != 0) {
      throw ConfigError(fmt::format("[Conv2D] groups; expected a divisor of {} filters; got {}",
                                    spec.filters, spec.groups));
    }
    require_channels_last(spec.data_format);
    check_activation(spec.activation);
    check_regularizer(spec.kernel_regularizer);
    check_regularizer(spec.bias_regularizer);
    require_absent("activity_regularizer", spec.activity_regularizer);
    check_constraint(spec.kernel_constraint);
    check_constraint(spec.bias_constraint);
  }

  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 3, "a picture (height, width, channels)");
    const kernels::ConvShape s = shape_of(inputs[0]);
    return Shape{s.oh, s.ow, s.oc};
  }

  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const ValueType& input = builder.type(inputs[0]);
    const kernels::ConvShape s = shape_of(input.shape);
    const ConvAlgorithm algorithm = choose_algorithm(s, input.layout, builder.convolutions());
    const ValueId kernel = builder.parameter({.name = "kernel",
                                              .shape = Shape{s.kh, s.kw, s.ic / s.groups, s.oc},
                                              .initializer = spec_.kernel_initializer,
                                              .packing = conv_kernel_packing(s, algorithm),
                                              .regularizer = spec_.kernel_regularizer,
                                              .constraint = spec_.kernel_constraint});
    const ValueId bias = bias_parameter(builder, spec_, s.oc);
    const ValueId y = emit_conv(builder, s, algorithm, inputs[0], kernel, bias);
    return emit_activation(builder, spec_.activation, y);
  }

 private:
  kernels::ConvShape shape_of(const Shape& input) const {
    if (input[2] % spec_.groups != 0) {
      throw ConfigError(fmt::format("groups; expected a divisor of {} input channels; got {}",
                                    input[2], spec_.groups));
    }
    return conv_shape(input, spec_, spec_.filters, spec_.groups);
  }
  Conv2D spec_;
};

}  // namespace

LayerPtr make_layer(const Conv2D& spec) {
  return std::make_shared<Conv2DImpl>(spec);
}

}  // namespace surefit
