// SPDX-License-Identifier: Apache-2.0
// Winograd F(4x4, 3x3): 3x3 kernel, stride 1, dilation 1, padding 0 to 2, groups 1. Four times
// fewer multiplications than direct convolution for three to five times its rounding error (Lavin
// and Gray 2015, arXiv:1509.09308).
//
// Transformed weights U and their gradient dU are caller's buffers [groups][36][CI8][16]: a group
// is 16 channels on the output side, so any range of groups can be present on its own (a slice) and
// gives the same bits.
//
// Every transformed product is a sum over input channels in order, so tiles and samples may be
// grouped at will in forward and backward-data. The gradient is summed over tiles in (sample, tile)
// order; from winograd_long_picture() on, in partial sums over fixed runs of tiles within a sample.
#pragma once

#include "engine/kernels/conv_shape.hpp"

namespace surefit::kernels {

enum class WinogradDirection { kForward, kBackwardData };

struct WinogradWeights {
  ConvShape shape;
  WinogradDirection direction = WinogradDirection::kForward;
  const float* weights = nullptr;  // [OC8/8][IC8/8][3][3][8][8]
  float* u = nullptr;              // of group_begin
  int group_begin = 0;
};

// Forward: src -> dst. Backward-data: diff_dst in src, diff_src in dst, no bias.
struct WinogradPass {
  ConvShape shape;
  WinogradDirection direction = WinogradDirection::kForward;
  const float* src = nullptr;
  std::ptrdiff_t src_stride = 0;
  const float* u = nullptr;  // of group_begin
  int group_begin = 0, group_end = 0;
  const float* bias = nullptr;  // may be null
  float* dst = nullptr;
  std::ptrdiff_t dst_stride = 0;
  bool relu = false;
};

struct WinogradBackwardWeights {
  ConvShape shape;
  const float* src = nullptr;
  std::ptrdiff_t src_stride = 0;
  const float* diff_dst = nullptr;
  std::ptrdiff_t diff_dst_stride = 0;
  float* du = nullptr;  // all groups
  bool first = true;
};

struct WinogradWeightsGradient {
  ConvShape shape;
  const float* du = nullptr;
  float* diff_weights = nullptr;  // overwritten
};

struct WinogradKernels {
  void (*transform_weights)(const WinogradWeights&, int group) = nullptr;
  void (*pass)(const WinogradPass&, Samples, int block, float* scratch) = nullptr;
  void (*backward_weights)(const WinogradBackwardWeights&, Samples, int block,
                           float* scratch) = nullptr;
  void (*weights_gradient)(const WinogradWeightsGradient&, int group) = nullptr;
};

SUREFIT_SHAPE_FN bool winograd_applies(const ConvShape& s) {
  return s.kh == 3 && s.kw == 3 && s.stride_h == 1 && s.stride_w == 1 && s.dilation_h == 1 &&
         s.dilation_w == 1 && s.groups == 1 && s.pad_top <= 2 && s.pad_left <= 2;
}

// The pass as a convolution from ci to co channels; backward-data is one with rotated weights.
struct WinogradPlane {
  int ci8, co8;
  int in_h, in_w, out_h, out_w;
  int pad_top, pad_left;
  int tiles_w, tiles;
};

SUREFIT_SHAPE_FN WinogradPlane winograd_plane(const ConvShape& s, WinogradDirection d) {
  const bool back = d == WinogradDirection::kBackwardData;
  const int ic8 = round_up(s.ic, 8), oc8 = round_up(s.oc, 8);
  const int out_h = back ? s.h : s.oh, out_w = back ? s.w : s.ow;
  return {back ? oc8 : ic8,
          back ? ic8 : oc8,
          back ? s.oh : s.h,
          back ? s.ow : s.w,
          out_h,
          out_w,
          back ? 2 - s.pad_top : s.pad_top,
          back ? 2 - s.pad_left : s.pad_left,
          ceil_div(out_w, 4),
          ceil_div(out_h, 4) * ceil_div(out_w, 4)};
}

SUREFIT_SHAPE_FN int winograd_groups(const ConvShape& s, WinogradDirection d) {
  return ceil_div(winograd_plane(s, d).co8, 16);
}
SUREFIT_SHAPE_FN std::size_t winograd_group_floats(const ConvShape& s, WinogradDirection d) {
  return std::size_t(36) * 16 * std::size_t(winograd_plane(s, d).ci8);
}
SUREFIT_SHAPE_FN std::size_t winograd_u_bytes(const ConvShape& s, WinogradDirection d) {
  return sizeof(float) * winograd_group_floats(s, d) * std::size_t(winograd_groups(s, d));
}

// Room for the kernels of a group from eight input channels, turned as a pass reads them.
inline constexpr int kWinogradTurnedFloats = 2 * 9 * 64;

// Tiles transformed together: the rows of the matrix products. More rows read U less often, fewer
// keep the transformed input in cache. Wide layers, whose U comes from memory, gain from more (512
// channels at 4x4: 310 GFLOP/s with 64 tiles, 263 with 48), narrow ones lose (64 channels at 32x32:
// 312 with 48, 345 with 24).
inline constexpr int kWinogradMostTiles = 64;
SUREFIT_SHAPE_FN int winograd_chunk(const ConvShape& s, WinogradDirection d) {
  const int ci8 = winograd_plane(s, d).ci8;
  return ci8 <= 256 ? 24 : ci8 <= 512 ? 64 : at_least(24576 / ci8 / 6 * 6, 6);
}
// Output groups multiplied while one element's transformed input is in cache.
SUREFIT_SHAPE_FN int winograd_batch(int ci8) {
  return ci8 <= 256 ? 2 : 4;
}
SUREFIT_SHAPE_FN int winograd_blocks(const ConvShape& s, WinogradDirection d) {
  return ceil_div(winograd_plane(s, d).tiles, winograd_chunk(s, d));
}
// Samples a call should cover for the products to have enough rows.
SUREFIT_SHAPE_FN int winograd_sample_group(const ConvShape& s, WinogradDirection d) {
  return at_least(winograd_chunk(s, d) / winograd_plane(s, d).tiles, 1);
}
// Row pitch of the transformed input: not a power of two, whose rows would share cache sets.
SUREFIT_SHAPE_FN int winograd_pitch(int ci8) {
  return ci8 + 16;
}
// Floats from one element of the 6x6 window to the next, where each has so many: not a power of two
// either, or the elements of one tile would share cache sets (backward-weights of 64 channels: 271
// against 214 GFLOP/s).
SUREFIT_SHAPE_FN int winograd_element(int floats) {
  return floats + 16;
}

SUREFIT_SHAPE_FN std::size_t winograd_pass_scratch_bytes(const ConvShape& s, WinogradDirection d) {
  const int ci8 = winograd_plane(s, d).ci8, chunk = winograd_chunk(s, d);
  return sizeof(float) * 36 *
         std::size_t(winograd_element(chunk * winograd_pitch(ci8)) +
                     winograd_batch(ci8) * winograd_element(chunk * 16));
}

// Backward-weights. A block is two rows of the 6x6 transformed window (they share half their work)
// of a range of output groups.
SUREFIT_SHAPE_FN int winograd_gradient_chunk(const ConvShape& s) {
  return round_up(s.ic, 8) <= 512 ? kWinogradMostTiles : 32;
}
// Samples a call should cover for the sums to be long enough.
SUREFIT_SHAPE_FN int winograd_gradient_samples(const ConvShape& s) {
  return ceil_div(winograd_gradient_chunk(s), winograd_plane(s, WinogradDirection::kForward).tiles);
}
SUREFIT_SHAPE_FN bool winograd_long_picture(const ConvShape& s) {
  return winograd_plane(s, WinogradDirection::kForward).tiles >= 32;
}
SUREFIT_SHAPE_FN int winograd_groups_per_block(const ConvShape& s) {
  const int groups = winograd_groups(s, WinogradDirection::kForward);
  return at_most(at_least(ceil_div(groups, 2), 1), 8);
}
SUREFIT_SHAPE_FN int winograd_backward_weights_blocks(const ConvShape& s) {
  return 3 *
         ceil_div(winograd_groups(s, WinogradDirection::kForward), winograd_groups_per_block(s));
}
SUREFIT_SHAPE_FN std::size_t winograd_backward_weights_scratch_bytes(const ConvShape& s) {
  const int chunk = winograd_gradient_chunk(s);
  return sizeof(float) * 12 *
         std::size_t(winograd_element(chunk * round_up(s.ic, 8)) +
                     winograd_element(chunk * winograd_groups_per_block(s) * 16));
}

}  // namespace surefit::kernels
