// SPDX-License-Identifier: Apache-2.0
// Winograd where the batch has few tiles for the size of the weights. Written to memory, the
// transformed weights would be read back for a handful of products, and so would their gradient;
// here a few input channels at a time are transformed and used up in cache, and neither exists as a
// whole. The bits are those of conv_winograd.hpp.
//
// Pictures are transformed first, for all groups of output channels, into the caller's buffers:
//   V [CI8/8][36][tiles][8], M [CO8/16][36][tiles][16], where tiles are counted over all samples.
#pragma once

#include "engine/kernels/conv_winograd.hpp"

namespace surefit::kernels {

// What a batch is transformed to.
struct WinogradFewPicture {
  ConvShape shape;
  WinogradDirection direction = WinogradDirection::kForward;
  int tiles = 0;  // that the buffer has room for
  const float* src = nullptr;
  std::ptrdiff_t src_stride = 0;
  float* out = nullptr;
};

// `pass` without u and groups.
struct WinogradFewPass {
  WinogradPass pass = {};
  int tiles = 0;
  const float* v = nullptr;
  const float* weights = nullptr;
};

// Arrays of the weights' layout that an update reads behind the gradient.
inline constexpr int kWinogradFewAhead = 4;

struct WinogradFewGradient {
  ConvShape shape;
  int tiles = 0;  // that the buffers have room for
  int used = 0;   // of them
  const float* v = nullptr;
  const float* m = nullptr;
  // [9][8][8] for each block of input channels, and so many floats from one block of output
  // channels to the next.
  float* diff_weights = nullptr;
  std::ptrdiff_t apart = 0;
  // Whole, asked for meanwhile: memory has nothing else to do.
  const float* ahead[kWinogradFewAhead] = {};
};

struct WinogradFewKernels {
  // Part `part` of `parts` of the channels. The gradient's tiles are those of forward's output.
  void (*transform_input)(const WinogradFewPicture&, Samples, int part, int parts) = nullptr;
  void (*transform_gradient)(const WinogradFewPicture&, Samples, int part, int parts) = nullptr;
  // Of one block of winograd_few_blocks; the gradient from input channel block `in_begin` on.
  void (*pass)(const WinogradFewPass&, Samples, int block, float* scratch) = nullptr;
  void (*backward_weights)(const WinogradFewGradient&, int block, int in_begin, int in_end,
                           float* scratch) = nullptr;
};

// Groups of output channels in a block. Two: with registers for both, a float of V or M is fetched
// once for two multiply-adds, and both are read half as often.
inline constexpr int kWinogradFewGroups = 2;
SUREFIT_SHAPE_FN int winograd_few_blocks(const ConvShape& s, WinogradDirection d) {
  return ceil_div(winograd_groups(s, d), kWinogradFewGroups);
}

// The sums of pictures of many tiles are cut (winograd_long_picture), which is not done here.
SUREFIT_SHAPE_FN bool winograd_few_applies(const ConvShape& s) {
  return winograd_applies(s) && !winograd_long_picture(s);
}

// Floats from one element of the 6x6 window to the next: an odd number of cache lines, or the
// elements of a tile would share cache sets.
SUREFIT_SHAPE_FN int winograd_few_element(int floats) {
  return (ceil_div(floats, 16) | 1) * 16;
}
SUREFIT_SHAPE_FN std::size_t winograd_few_v_floats(const ConvShape& s, WinogradDirection d,
                                                   int samples) {
  const WinogradPlane p = winograd_plane(s, d);
  return std::size_t(p.ci8 / 8) * 36 * std::size_t(winograd_few_element(p.tiles * samples * 8));
}
SUREFIT_SHAPE_FN std::size_t winograd_few_m_floats(const ConvShape& s, int samples) {
  const WinogradPlane p = winograd_plane(s, WinogradDirection::kForward);
  return std::size_t(ceil_div(p.co8, 16)) * 36 *
         std::size_t(winograd_few_element(p.tiles * samples * 16));
}

// Blocks of input channels whose weights are transformed together: sums over tiles are loaded and
// stored once for each.
inline constexpr int kWinogradFewDepth = 4;
SUREFIT_SHAPE_FN std::size_t winograd_few_pass_scratch_bytes(const ConvShape& s,
                                                             WinogradDirection d, int samples) {
  const int tiles = winograd_plane(s, d).tiles * samples;
  return sizeof(float) *
         (kWinogradTurnedFloats +
          36 * std::size_t(winograd_few_element(kWinogradFewGroups * kWinogradFewDepth * 8 * 16)) +
          kWinogradFewGroups * 36 * std::size_t(winograd_few_element(tiles * 16)));
}
SUREFIT_SHAPE_FN std::size_t winograd_few_gradient_scratch_bytes() {
  return sizeof(float) * 36 * std::size_t(winograd_few_element(kWinogradFewGroups * 8 * 16));
}

}  // namespace surefit::kernels
