// SPDX-License-Identifier: Apache-2.0
// Convolution of a picture (at most seven channels, plain [H][W][C]) into a blocked activation.
// oneDNN runs its reference loop here for one channel. Any kernel size, stride, padding and
// dilation; groups must be 1.
//
// Every output element is bias + sum over (kh, kw, ic) in that order.
#pragma once

#include "engine/kernels/conv_shape.hpp"

namespace surefit::kernels {

struct FirstConvKernels {
  ConvForwardFn forward = nullptr;                   // bias required
  ConvBackwardWeightsFn backward_weights = nullptr;  // per sample and per chunk of rows, in order
  ConvBackwardDataFn backward_data = nullptr;        // the picture's gradient; correct, not fast
};

SUREFIT_SHAPE_FN std::size_t first_weights_floats(const ConvShape& s) {
  return std::size_t(channel_blocks(s.oc)) * 8 * std::size_t(s.kh) * std::size_t(s.kw) *
         std::size_t(s.ic);
}

// Width in floats of one row of the picture with its padding.
SUREFIT_SHAPE_FN int first_staged_row(const ConvShape& s) {
  return ((s.ow - 1) * s.stride_w + (s.kw - 1) * s.dilation_w + 1) * s.ic;
}
SUREFIT_SHAPE_FN int first_staged_rows(const ConvShape& s, int output_rows) {
  return (output_rows - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1;
}

SUREFIT_SHAPE_FN int first_forward_blocks(const ConvShape& s) {
  return row_blocks(s.oh, 16.0 * channel_blocks(s.oc) * s.ow * s.kh * s.kw * s.ic);
}

// Output pixels whose gradient stays in the first-level cache while the taps of a block pass over
// them.
inline constexpr int kFirstChunkPixels = 128;
SUREFIT_SHAPE_FN int first_backward_rows(const ConvShape& s) {
  return at_most(at_least(kFirstChunkPixels / s.ow, 1), s.oh);
}

// A block is one kernel row of four output channel blocks.
SUREFIT_SHAPE_FN int first_backward_weights_blocks(const ConvShape& s) {
  return ceil_div(channel_blocks(s.oc), 4) * s.kh;
}
SUREFIT_SHAPE_FN int first_backward_data_blocks(const ConvShape&) {
  return 1;
}

// One scratch size serves all three.
SUREFIT_SHAPE_FN std::size_t first_scratch_bytes(const ConvShape& s) {
  const int forward_rows = ceil_div(s.oh, first_forward_blocks(s)) + 1;
  const int rows = at_least(forward_rows, first_backward_rows(s));
  return sizeof(float) * std::size_t(first_staged_rows(s, rows)) * std::size_t(first_staged_row(s));
}

}  // namespace surefit::kernels
