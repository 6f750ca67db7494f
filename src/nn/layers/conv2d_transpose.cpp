// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/convolution.hpp"
#include "nn/ops/conv_transpose.hpp"

namespace surefit {
namespace {

class Conv2DTransposeImpl final : public LayerImpl {
 public:
  explicit Conv2DTransposeImpl(const Conv2DTranspose& spec) : spec_(spec) {
    check_filters(spec);
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
    const kernels::ConvShape s = transposed(inputs[0]);
    return Shape{s.h, s.w, s.ic};
  }

  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const kernels::ConvShape s = transposed(builder.type(inputs[0]).shape);
    // The gradient of Winograd's weights lives in another domain; direct kernels serve both ways.
    const Convolutions wanted = builder.convolutions();
    const ConvAlgorithm algorithm = choose_algorithm(
        s, Layout::kBlocked, wanted == Convolutions::kWinograd ? Convolutions::kExact : wanted);
    const ValueId kernel = builder.parameter({.name = "kernel",
                                              .shape = Shape{s.kh, s.kw, s.ic, s.oc},
                                              .initializer = spec_.kernel_initializer,
                                              .packing = conv_kernel_packing(s, algorithm),
                                              .regularizer = spec_.kernel_regularizer,
                                              .constraint = spec_.kernel_constraint});
    const ValueId bias = bias_parameter(builder, spec_, s.ic);
    return emit_activation(builder, spec_.activation,
                           emit_conv_transpose(builder, s, algorithm, inputs[0], kernel, bias));
  }

 private:
  // Pixels that `in` of them spread to; `more` is the output_padding.
  std::int64_t spread(std::int64_t in, int kernel, int stride, int dilation,
                      std::optional<int> more) const {
    if (kernel < 1 || stride < 1 || dilation < 1) {
      throw ConfigError(
          fmt::format("kernel_size, strides and dilation_rate; expected at least 1; got {}, {}, {}",
                      kernel, stride, dilation));
    }
    const std::int64_t reach = std::int64_t{kernel - 1} * dilation + 1;
    const bool same = spec_.padding == "same";
    std::int64_t out = in * stride + (same ? 0 : std::max<std::int64_t>(reach - stride, 0));
    if (more) {
      out = (in - 1) * stride + (same ? reach % 2 : reach) + *more;
      // Otherwise the convolution from the output would not lead back to the input.
      if (*more < 0 || out < 1 ||
          window_axis(out, kernel, stride, dilation, spec_.padding).out != in)
        throw ConfigError(fmt::format("output_padding; expected less than the stride of {}; got {}",
                                      stride, *more));
    }
    if (out > 1 << 24) throw ConfigError(fmt::format("{} output pixels a side are too many", out));
    return out;
  }

  // The convolution that leads from this layer's output to its input.
  kernels::ConvShape transposed(const Shape& input) const {
    if (dilated_and_strided()) {
      throw ConfigError("dilation_rate and strides; expected one of them to be 1");
    }
    std::optional<int> more_h, more_w;
    if (spec_.output_padding) more_h = spec_.output_padding->h, more_w = spec_.output_padding->w;
    const Shape output = {
        spread(input[0], spec_.kernel_size.h, spec_.strides.h, spec_.dilation_rate.h, more_h),
        spread(input[1], spec_.kernel_size.w, spec_.strides.w, spec_.dilation_rate.w, more_w),
        spec_.filters};
    kernels::ConvShape s = conv_shape(output, spec_, static_cast<int>(input[2]), 1);
    // A stride beyond the kernel leaves pixels at the end that no window reaches: zero, but there.
    s.oh = static_cast<int>(input[0]);
    s.ow = static_cast<int>(input[1]);
    return s;
  }
  bool dilated_and_strided() const {
    const bool dilated = spec_.dilation_rate.h > 1 || spec_.dilation_rate.w > 1;
    return dilated && (spec_.strides.h > 1 || spec_.strides.w > 1);
  }
  Conv2DTranspose spec_;
};

}  // namespace

LayerPtr make_layer(const Conv2DTranspose& spec) {
  return std::make_shared<Conv2DTransposeImpl>(spec);
}

}  // namespace surefit
