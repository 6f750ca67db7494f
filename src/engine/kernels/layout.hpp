// SPDX-License-Identifier: Apache-2.0
// Moves between channels-last pictures [H][W][C], blocked nChw8c and rows, and the pure data movers
// of the zoo. Keras's Flatten order is that of channels-last, so flatten is blocked_to_picture and
// its backward picture_to_blocked.
#pragma once

#include <cstdint>

namespace surefit::kernels {

struct PictureArgs {
  std::int64_t channels = 0, pixels = 0;
  const float* src = nullptr;
  std::int64_t src_stride = 0;
  float* dst = nullptr;
  std::int64_t dst_stride = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
};

struct BytePictureArgs {
  std::int64_t channels = 0, pixels = 0;
  const std::uint8_t* src = nullptr;           // [H][W][C]
  std::int64_t src_stride = 0;                 // bytes
  float scale = 1.0f / 255.0f, offset = 0.0f;  // x * scale + offset
  float* dst = nullptr;                        // blocked
  std::int64_t dst_stride = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
};

// Copies `count` channels from src_channel of src to dst_channel of dst, both blocked.
// Concatenation is one call per input, split one call per output. A call that writes dst's last
// channel also zeroes dst's padding lanes.
struct ChannelCopyArgs {
  std::int64_t pixels = 0;
  std::int64_t src_channel = 0, dst_channel = 0, count = 0;
  std::int64_t dst_channels = 0;
  const float* src = nullptr;
  std::int64_t src_stride = 0;
  float* dst = nullptr;
  std::int64_t dst_stride = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
};

// dst[y][x] = src[y - top][x - left] where that exists, else 0. Zero padding has top, left >= 0,
// cropping <= 0; each is the other's backward with the sign turned.
struct PlaceArgs {
  std::int64_t src_height = 0, src_width = 0, dst_height = 0, dst_width = 0;
  std::int64_t top = 0, left = 0;
  std::int64_t lanes = 8;  // of a pixel; a plain picture is one block of all its channels
  const float* src = nullptr;
  std::int64_t src_stride = 0;
  float* dst = nullptr;
  std::int64_t dst_stride = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
  std::int64_t block_begin = 0, block_end = 0;
};

// Upsampling by whole factors; bilinear has half-pixel centres and clamped edges. Backward: src is
// the gradient of the large picture, dst (overwritten) that of the small one; sums run over the
// large picture in row-major order.
struct UpsampleArgs {
  std::int64_t height = 0, width = 0;  // of the small picture
  int factor_h = 2, factor_w = 2;
  const float* src = nullptr;
  std::int64_t src_stride = 0;
  float* dst = nullptr;
  std::int64_t dst_stride = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
  std::int64_t block_begin = 0, block_end = 0;
};

struct LayoutKernels {
  void (*picture_to_blocked)(const PictureArgs&) = nullptr;
  void (*blocked_to_picture)(const PictureArgs&) = nullptr;
  void (*bytes_to_blocked)(const BytePictureArgs&) = nullptr;
  void (*bytes_to_float)(const std::uint8_t* x, float scale, float offset, float* y,
                         std::int64_t count) = nullptr;
  void (*copy_channels)(const ChannelCopyArgs&) = nullptr;
  void (*place)(const PlaceArgs&) = nullptr;
  void (*upsample_nearest)(const UpsampleArgs&) = nullptr;
  void (*upsample_nearest_backward)(const UpsampleArgs&) = nullptr;
  void (*upsample_bilinear)(const UpsampleArgs&) = nullptr;
  void (*upsample_bilinear_backward)(const UpsampleArgs&) = nullptr;
  // dst[c][r] = src[r][c]
  void (*transpose)(const float* src, std::int64_t rows, std::int64_t cols, float* dst) = nullptr;
};

}  // namespace surefit::kernels
