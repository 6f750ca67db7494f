// SPDX-License-Identifier: Apache-2.0
// The first block of many small nets in one pass: convolution of a picture (stride 1, dilation 1,
// any padding and kernel size; ic <= 7) + bias + relu + max pooling 2x2 stride 2 without padding.
// The convolution's output is never stored: forward keeps the pooled value and which of the four
// won, backward needs nothing else. The gradient is small, so every sample has its own: samples are
// independent, and each rearranges its picture once for all output channels.
//
// Pooled values carry the same bits as first.forward, relu, max pool. Ties: the first in row-major
// order wins.
#pragma once

#include <cstdint>

#include "engine/kernels/conv_first.hpp"

namespace surefit::kernels {

inline constexpr std::uint8_t kReluDead = 4;  // no gradient flows through this pooled element

struct FirstPoolForward {
  ConvShape shape;  // of the convolution; the pooled picture is oh / 2 by ow / 2
  const float* src = nullptr;
  std::ptrdiff_t src_stride = 0;
  const float* weights = nullptr;  // [OC8/8][KH][KW][IC][8]
  const float* bias = nullptr;
  float* dst = nullptr;  // [OC8/8][OH/2][OW/2][8]
  std::uint8_t* argmax = nullptr;
  std::ptrdiff_t dst_stride = 0;  // of dst in floats and of argmax in bytes
};

struct FirstPoolBackwardWeights {
  ConvShape shape;
  const float* src = nullptr;
  std::ptrdiff_t src_stride = 0;
  const float* diff_dst = nullptr;
  const std::uint8_t* argmax = nullptr;
  std::ptrdiff_t diff_dst_stride = 0;  // of both
  float* gradient = nullptr;           // of each sample by itself: weights, then bias [OC8]
  std::ptrdiff_t gradient_stride = 0;
};

struct FirstPoolKernels {
  void (*forward)(const FirstPoolForward&, Samples, int block, float* scratch) = nullptr;
  void (*backward_weights)(const FirstPoolBackwardWeights&, Samples, float* scratch) = nullptr;
};

SUREFIT_SHAPE_FN int first_pool_forward_blocks(const ConvShape& s) {
  return row_blocks(s.oh / 2, 32.0 * channel_blocks(s.oc) * s.ow * s.kh * s.kw * s.ic);
}

SUREFIT_SHAPE_FN std::size_t first_pool_gradient_floats(const ConvShape& s) {
  return first_weights_floats(s) + std::size_t(channel_blocks(s.oc)) * 8;
}

// Backward looks at each 2x2 window as one vector of four ("quad"). Quads in one row:
SUREFIT_SHAPE_FN int first_pool_quads(const ConvShape& s) {
  return round_up((2 * (s.ow / 2) - 2 + s.kw) * s.ic, 4);
}
// Pooled rows that share one set of quads: as many as leave them in the first-level cache.
SUREFIT_SHAPE_FN int first_pool_backward_rows(const ConvShape& s) {
  const int fitting = 16384 / (16 * first_pool_quads(s));
  return at_most(at_least((fitting - s.kh) / 2 + 1, 1), s.oh / 2);
}
SUREFIT_SHAPE_FN int first_pool_quad_rows(const ConvShape& s) {
  return 2 * (first_pool_backward_rows(s) - 1) + s.kh;
}
// A staged row has room for the four-wide reads past its end.
SUREFIT_SHAPE_FN int first_pool_staged_row(const ConvShape& s) {
  return first_pool_quads(s) + s.ic + 4;
}

SUREFIT_SHAPE_FN std::size_t first_pool_scratch_bytes(const ConvShape& s) {
  const int rows = 2 * (ceil_div(s.oh / 2, first_pool_forward_blocks(s)) + 1);
  const std::size_t forward =
      std::size_t(first_staged_rows(s, rows)) * std::size_t(first_staged_row(s));
  const std::size_t backward =
      4 * std::size_t(first_pool_quad_rows(s)) * std::size_t(first_pool_quads(s)) +
      2 * std::size_t(first_pool_staged_row(s));
  return sizeof(float) * (forward > backward ? forward : backward);
}

}  // namespace surefit::kernels
