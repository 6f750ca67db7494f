// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution with multiplier 1 (groups = ic = oc): any kernel size, stride, padding and
// dilation. Weights [C8/8][KH][KW][8]. Every output element is bias + sum over (kh, kw).
#pragma once

#include "engine/kernels/conv_shape.hpp"

namespace surefit::kernels {

struct DepthwiseKernels {
  ConvForwardFn forward = nullptr;             // bias may be null
  ConvBackwardDataFn backward_data = nullptr;  // the same weights
  ConvBackwardWeightsFn backward_weights = nullptr;
};

inline constexpr int kDepthwisePixels = 7;  // of a tile; divides 7, 14, 28, 56, 112 and 224

SUREFIT_SHAPE_FN std::size_t depthwise_weights_floats(const ConvShape& s) {
  return std::size_t(channel_blocks(s.ic)) * 8 * std::size_t(s.kh) * std::size_t(s.kw);
}

// A block is a range of channel blocks. A multiply-add costs about three times that of a dense
// kernel here.
SUREFIT_SHAPE_FN int depthwise_blocks(const ConvShape& s) {
  return row_blocks(channel_blocks(s.ic), 48.0 * s.kh * s.kw * s.oh * s.ow);
}
SUREFIT_SHAPE_FN int depthwise_backward_weights_blocks(const ConvShape& s) {
  return row_blocks(channel_blocks(s.ic), 8 * 48.0 * s.kh * s.kw * s.oh * s.ow);
}

// Backward-weights: output rows whose padded input stays in the first-level cache.
SUREFIT_SHAPE_FN int depthwise_staged_columns(const ConvShape& s) {
  return (s.ow - 1) * s.stride_w + (s.kw - 1) * s.dilation_w + 1;
}
SUREFIT_SHAPE_FN int depthwise_chunk_rows(const ConvShape& s) {
  const int fitting = 16384 / (32 * depthwise_staged_columns(s)) - (s.kh - 1) * s.dilation_h;
  return at_most(at_least(fitting / s.stride_h, 4), s.oh);
}

SUREFIT_SHAPE_FN std::size_t depthwise_scratch_bytes(const ConvShape& s) {
  const std::size_t taps = std::size_t(s.kh) * std::size_t(s.kw);
  const std::size_t lists = 2 * taps * sizeof(SweepTap);
  const int reach = (kDepthwisePixels - 1) * s.stride_w + (s.kw - 1) * s.dilation_w + 1;
  const int tile = at_least(s.kh * reach, s.kh * s.kw * kDepthwisePixels);
  const int rows = (depthwise_chunk_rows(s) - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1;
  const std::size_t plane = std::size_t(rows) * std::size_t(depthwise_staged_columns(s));
  const std::size_t pixels = plane > std::size_t(tile) ? plane : std::size_t(tile);
  return lists + pixels * 8 * sizeof(float);
}

}  // namespace surefit::kernels
