// SPDX-License-Identifier: Apache-2.0
// What all convolution kernels share: the shape, the argument structs, and the sizes derived from
// them.
//
// Layouts. Activations: per sample [C8/8][H][W][8], channels padded to a multiple of eight, padding
// lanes zero. Weights: [OC8/8][IC8/8][KH][KW][8 in][8 out]. Bias: [OC8]. A picture (ic <= 7) is
// plain [H][W][C] and its weights are [OC8/8][KH][KW][IC][8 out]. Depthwise weights:
// [C8/8][KH][KW][8]. Grouped weights: conv_direct.hpp.
//
// Work. A call covers samples [begin, end) and one block of the output. Forward and backward-data:
// every (sample, block) is independent. Backward-weights: a block is a part of diff_weights; the
// call walks its samples in order and adds, so [0, 4) then [4, 8) leaves the same bits as [0, 8).
// Scratch is aligned to 64 bytes, holds the bytes the family's ..._scratch_bytes() says, and
// carries nothing from one call to the next.
#pragma once

#include <cstddef>

// Shape arithmetic is compiled once per instruction set and must not leave a shared symbol behind:
// a baseline program could otherwise end up calling the AVX2 copy.
#define SUREFIT_SHAPE_FN constexpr inline __attribute__((always_inline))

namespace surefit::kernels {

struct ConvShape {
  int ic = 0, oc = 0;
  int h = 0, w = 0;    // input
  int oh = 0, ow = 0;  // output; the bottom and right padding follow from it
  int kh = 1, kw = 1;
  int stride_h = 1, stride_w = 1;
  int pad_top = 0, pad_left = 0;
  int dilation_h = 1, dilation_w = 1;
  int groups = 1;
};

struct Samples {
  int begin = 0;
  int end = 0;
};

// Strides count floats from one sample to the next.
struct ConvForward {
  ConvShape shape;
  const float* src = nullptr;
  std::ptrdiff_t src_stride = 0;
  const float* weights = nullptr;
  const float* bias = nullptr;  // may be null where the kernel says so
  float* dst = nullptr;
  std::ptrdiff_t dst_stride = 0;
  bool relu = false;
};

struct ConvBackwardData {
  ConvShape shape;
  const float* diff_dst = nullptr;
  std::ptrdiff_t diff_dst_stride = 0;
  const float* weights = nullptr;  // in the form the kernel family asks for
  float* diff_src = nullptr;
  std::ptrdiff_t diff_src_stride = 0;
};

struct ConvBackwardWeights {
  ConvShape shape;
  const float* src = nullptr;
  std::ptrdiff_t src_stride = 0;
  const float* diff_dst = nullptr;
  std::ptrdiff_t diff_dst_stride = 0;
  float* diff_weights = nullptr;
  float* diff_bias = nullptr;  // null: no bias gradient
  bool first = true;           // overwrite instead of add
  // Direct convolution: diff_weights is the block's alone, [output blocks][slots][taps][8][8].
  bool block_alone = false;
};

// One kernel tap as an inner loop sees it; kernels keep lists of them in their scratch.
struct SweepTap {
  std::ptrdiff_t src;  // floats from the tile's first pixel
  int index;           // kh * KW + kw
  int row, column;     // in the input, of the picture's first pixel
};

using ConvForwardFn = void (*)(const ConvForward&, Samples, int block, float* scratch);
using ConvBackwardDataFn = void (*)(const ConvBackwardData&, Samples, int block, float* scratch);
using ConvBackwardWeightsFn = void (*)(const ConvBackwardWeights&, Samples, int block,
                                       float* scratch);

SUREFIT_SHAPE_FN int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}
SUREFIT_SHAPE_FN int round_up(int a, int b) {
  return ceil_div(a, b) * b;
}
SUREFIT_SHAPE_FN int at_least(int a, int low) {
  return a < low ? low : a;
}
SUREFIT_SHAPE_FN int at_most(int a, int high) {
  return a > high ? high : a;
}
SUREFIT_SHAPE_FN int channel_blocks(int channels) {
  return ceil_div(channels, 8);
}

// Floats of one sample of a blocked activation.
SUREFIT_SHAPE_FN std::size_t blocked_floats(int channels, int h, int w) {
  return std::size_t(8) * std::size_t(channel_blocks(channels)) * std::size_t(h) * std::size_t(w);
}

// Part `index` of `count` items cut into `parts` pieces whose sizes differ by at most one.
SUREFIT_SHAPE_FN int part_begin(int count, int parts, int index) {
  return int(static_cast<long long>(count) * index / parts);
}

// Output rows per task: enough for about 20 us of work at full speed (2 MFLOP), never more than the
// picture.
SUREFIT_SHAPE_FN int row_blocks(int rows, double flops_per_row) {
  const double wanted = 2.0e6 / (flops_per_row > 1.0 ? flops_per_row : 1.0);
  const int per_task = wanted < 1.0 ? 1 : wanted > double(rows) ? rows : int(wanted);
  return ceil_div(rows, at_least(per_task, 1));
}

}  // namespace surefit::kernels
