// SPDX-License-Identifier: Apache-2.0
// What max and average pooling share.
#pragma once

#include <fmt/format.h>

#include "engine/kernels/pool.hpp"
#include "nn/layers/common.hpp"

namespace surefit {

template <typename Spec>
void check_pooling(const Spec& spec) {
  require_channels_last(spec.data_format);
  const auto fits = [](int extent) { return extent >= 1 && extent <= kernels::kPoolWindowMax; };
  if (!fits(spec.pool_size.h) || !fits(spec.pool_size.w)) {
    throw ConfigError(fmt::format("[{}] pool_size; expected 1 to {}; got {}x{}", Spec::kClass,
                                  kernels::kPoolWindowMax, spec.pool_size.h, spec.pool_size.w));
  }
}

template <typename Spec>
kernels::PoolShape pool_shape(const Shape& input, const Spec& spec) {
  const Pair strides = spec.strides.value_or(spec.pool_size);
  const WindowAxis vertical = window_axis(input[0], spec.pool_size.h, strides.h, 1, spec.padding);
  const WindowAxis horizontal = window_axis(input[1], spec.pool_size.w, strides.w, 1, spec.padding);
  kernels::PoolShape s;
  s.height = input[0];
  s.width = input[1];
  s.out_height = vertical.out;
  s.out_width = horizontal.out;
  s.window_h = spec.pool_size.h;
  s.window_w = spec.pool_size.w;
  s.stride_h = strides.h;
  s.stride_w = strides.w;
  s.pad_top = vertical.pad_begin;
  s.pad_left = horizontal.pad_begin;
  return s;
}

}  // namespace surefit
