// SPDX-License-Identifier: Apache-2.0
// Pooling on nChw8c. A call covers samples [sample_begin, sample_end) and channel blocks
// [block_begin, block_end). Sums run over a window in row-major order and, backward, over the
// outputs that cover an input in row-major order.
#pragma once

#include <cstdint>

namespace surefit::kernels {

inline constexpr int kPoolWindowMax = 15;

struct PoolShape {
  std::int64_t height = 0, width = 0;          // input
  std::int64_t out_height = 0, out_width = 0;  // output
  int window_h = 1, window_w = 1;              // at most 15 x 15, so that an index fits into a byte
  int stride_h = 1, stride_w = 1;
  int pad_top = 0, pad_left = 0;  // bottom and right follow from the output size
};

// Padding never wins; the first maximum in row-major window order does; a NaN in the window wins
// over numbers. argmax holds ky * window_w + kx, or kPoolDead and dst 0 for a window that sees
// nothing but padding.
inline constexpr std::uint8_t kPoolDead = 255;  // no gradient goes through this output

struct MaxPoolArgs {
  PoolShape shape;
  bool relu = false;  // of the maximum, which is the maximum of relus: what is not above 0 is dead
  const float* src = nullptr;
  std::int64_t src_stride = 0;
  float* dst = nullptr;
  std::int64_t dst_stride = 0;
  std::uint8_t* argmax = nullptr;  // laid out as dst, one byte each; null: not wanted (inference)
  std::int64_t argmax_stride = 0;  // bytes
  std::int64_t sample_begin = 0, sample_end = 0;
  std::int64_t block_begin = 0, block_end = 0;
};

struct MaxPoolBackwardArgs {
  PoolShape shape;
  const float* diff_dst = nullptr;
  std::int64_t diff_dst_stride = 0;
  const std::uint8_t* argmax = nullptr;
  std::int64_t argmax_stride = 0;
  float* diff_src = nullptr;  // overwritten
  std::int64_t diff_src_stride = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
  std::int64_t block_begin = 0, block_end = 0;
};

// Keras's semantics: the mean over the window's positions inside the picture.
struct AveragePoolArgs {
  PoolShape shape;
  const float* src = nullptr;  // backward: gradient of the output
  std::int64_t src_stride = 0;
  float* dst = nullptr;  // backward: gradient of the input, overwritten
  std::int64_t dst_stride = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
  std::int64_t block_begin = 0, block_end = 0;
};

// Blocked picture <-> plain row of C floats.
struct GlobalPoolArgs {
  std::int64_t channels = 0, pixels = 0;
  const float* src = nullptr;
  std::int64_t src_stride = 0;
  float* dst = nullptr;
  std::int64_t dst_stride = 0;
  std::int32_t* argmax = nullptr;  // max only: [C] pixel indices per sample, the first maximum
  std::int64_t argmax_stride = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
  std::int64_t block_begin = 0, block_end = 0;
};

struct PoolKernels {
  void (*max)(const MaxPoolArgs&) = nullptr;
  void (*max_backward)(const MaxPoolBackwardArgs&) = nullptr;
  void (*average)(const AveragePoolArgs&) = nullptr;
  void (*average_backward)(const AveragePoolArgs&) = nullptr;
  // Mean over pixels: four chains (pixel mod 4), fixed tree.
  void (*global_average)(const GlobalPoolArgs&) = nullptr;
  void (*global_average_backward)(const GlobalPoolArgs&) = nullptr;  // src: rows, dst: picture
  void (*global_max)(const GlobalPoolArgs&) = nullptr;
  void (*global_max_backward)(const GlobalPoolArgs&) = nullptr;
};

}  // namespace surefit::kernels
