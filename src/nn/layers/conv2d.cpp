// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"
#include "nn/layers/common.hpp"
#include "nn/ops/conv.hpp"

namespace surefit {
namespace {

class Conv2DImpl final : public LayerImpl {
 public:
  explicit Conv2DImpl(const Conv2D& spec) : spec_(spec) {
    if (spec.filters < 1)
      throw ConfigError(fmt::format("[Conv2D] filters; expected at least 1; got {}", spec.filters));
    if (spec.groups < 1 || spec.filters % spec.groups != 0) {
      throw ConfigError(fmt::format("[Conv2D] groups; expected a divisor of {} filters; got {}",
                                    spec.filters, spec.groups));
    }
    require_channels_last(spec.data_format);
    check_activation(spec.activation);
    require_absent("kernel_regularizer", spec.kernel_regularizer);
    require_absent("bias_regularizer", spec.bias_regularizer);
    require_absent("activity_regularizer", spec.activity_regularizer);
    require_absent("kernel_constraint", spec.kernel_constraint);
    require_absent("bias_constraint", spec.bias_constraint);
  }

  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 3, "a picture (height, width, channels)");
    const kernels::ConvShape s = shape_of(inputs[0]);
    return Shape{s.oh, s.ow, s.oc};
  }

  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const ValueType& input = builder.type(inputs[0]);
    const kernels::ConvShape s = shape_of(input.shape);
    const ConvAlgorithm algorithm = choose_algorithm(s, input.layout, builder.conv_policy());
    const ValueId kernel = builder.parameter({.name = "kernel",
                                              .shape = Shape{s.kh, s.kw, s.ic / s.groups, s.oc},
                                              .initializer = spec_.kernel_initializer,
                                              .packing = conv_kernel_packing(s, algorithm)});
    ValueId bias = kNone;
    if (spec_.use_bias) {
      bias = builder.parameter({.name = "bias",
                                .shape = Shape{s.oc},
                                .initializer = spec_.bias_initializer,
                                .packing = channel_packing(s.oc)});
    }
    const ValueId y = emit_conv(builder, s, algorithm, inputs[0], kernel, bias);
    return emit_activation(builder, spec_.activation, y);
  }

 private:
  kernels::ConvShape shape_of(const Shape& input) const {
    const WindowAxis vertical = window_axis(input[0], spec_.kernel_size.h, spec_.strides.h,
                                            spec_.dilation_rate.h, spec_.padding);
    const WindowAxis horizontal = window_axis(input[1], spec_.kernel_size.w, spec_.strides.w,
                                              spec_.dilation_rate.w, spec_.padding);
    kernels::ConvShape s;
    if (input[2] % spec_.groups != 0) {
      throw ConfigError(fmt::format("groups; expected a divisor of {} input channels; got {}",
                                    input[2], spec_.groups));
    }
    s.groups = spec_.groups;
    s.ic = static_cast<int>(input[2]);
    s.oc = spec_.filters;
    s.h = static_cast<int>(input[0]);
    s.w = static_cast<int>(input[1]);
    s.oh = vertical.out;
    s.ow = horizontal.out;
    s.kh = spec_.kernel_size.h;
    s.kw = spec_.kernel_size.w;
    s.stride_h = spec_.strides.h;
    s.stride_w = spec_.strides.w;
    s.pad_top = vertical.pad_begin;
    s.pad_left = horizontal.pad_begin;
    s.dilation_h = spec_.dilation_rate.h;
    s.dilation_w = spec_.dilation_rate.w;
    return s;
  }
  Conv2D spec_;
};

}  // namespace

LayerPtr make_layer(const Conv2D& spec) {
  return std::make_shared<Conv2DImpl>(spec);
}

}  // namespace surefit
