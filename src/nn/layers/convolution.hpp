// SPDX-License-Identifier: Apache-2.0
// What the convolution layers share.
#pragma once

#include <fmt/format.h>

#include "nn/layers/common.hpp"
#include "nn/ops/conv.hpp"

namespace surefit {

template <typename Spec>
void check_filters(const Spec& spec) {
  if (spec.filters < 1)
    throw ConfigError(
        fmt::format("[{}] filters; expected at least 1; got {}", Spec::kClass, spec.filters));
}

template <typename Spec>
void check_depth_multiplier(const Spec& spec) {
  if (spec.depth_multiplier < 1 || spec.depth_multiplier > 1 << 20) {
    throw ConfigError(fmt::format("[{}] depth_multiplier; expected at least 1; got {}",
                                  Spec::kClass, spec.depth_multiplier));
  }
}

// Kernel, strides, padding and dilation of the spec on a picture.
template <typename Spec>
kernels::ConvShape conv_shape(const Shape& input, const Spec& spec, int filters, int groups) {
  const WindowAxis vertical =
      window_axis(input[0], spec.kernel_size.h, spec.strides.h, spec.dilation_rate.h, spec.padding);
  const WindowAxis horizontal =
      window_axis(input[1], spec.kernel_size.w, spec.strides.w, spec.dilation_rate.w, spec.padding);
  kernels::ConvShape s;
  s.groups = groups;
  s.ic = static_cast<int>(input[2]);
  s.oc = filters;
  s.h = static_cast<int>(input[0]);
  s.w = static_cast<int>(input[1]);
  s.oh = vertical.out;
  s.ow = horizontal.out;
  s.kh = spec.kernel_size.h;
  s.kw = spec.kernel_size.w;
  s.stride_h = spec.strides.h;
  s.stride_w = spec.strides.w;
  s.pad_top = vertical.pad_begin;
  s.pad_left = horizontal.pad_begin;
  s.dilation_h = spec.dilation_rate.h;
  s.dilation_w = spec.dilation_rate.w;
  return s;
}

// One filter per channel and multiple.
template <typename Spec>
kernels::ConvShape depthwise_shape(const Shape& input, const Spec& spec) {
  const std::int64_t channels = input[2] * spec.depth_multiplier;
  if (channels > 1 << 24)
    throw ConfigError(fmt::format("depth_multiplier; {} output channels are too many", channels));
  return conv_shape(input, spec, static_cast<int>(channels), static_cast<int>(input[2]));
}

// The parameter "bias" of a layer, or kNone.
template <typename Spec>
ValueId bias_parameter(LayerBuilder& builder, const Spec& spec, std::int64_t channels) {
  if (!spec.use_bias) return kNone;
  return builder.parameter({.name = "bias",
                            .shape = Shape{channels},
                            .initializer = spec.bias_initializer,
                            .packing = channel_packing(channels),
                            .regularizer = spec.bias_regularizer,
                            .constraint = spec.bias_constraint});
}

}  // namespace surefit
