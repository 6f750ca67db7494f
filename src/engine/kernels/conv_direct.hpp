// SPDX-License-Identifier: Apache-2.0
// Convolution by its definition on blocked activations: any kernel size, stride, padding, dilation
// and number of groups. 1x1 convolutions are the case of one tap.
//
// Forward sums bias + (input block, kh, kw, channel); backward-data likewise over output channels.
//
// Weights with groups: output block ob sees only the input blocks of its groups, a band of
// direct_band_width() blocks from direct_band_first() on: [OC8/8][width][KH][KW][8 in][8 out], zero
// where input and output channel belong to different groups. With groups = 1 this is the plain
// layout. Backward-data reads the weights turned round by `reverse_weights`:
// [IC8/8][width'][KH][KW][8 out][8 in].
#pragma once

#include "engine/kernels/conv_shape.hpp"

namespace surefit::kernels {

struct DirectReverse {
  ConvShape shape;
  const float* weights = nullptr;
  float* reversed = nullptr;
};

inline constexpr int kDirectPixels = 12;  // most pixels of a tile

struct DirectKernels {
  ConvForwardFn forward = nullptr;                                     // bias may be null
  void (*reverse_weights)(const DirectReverse&, int block) = nullptr;  // block: one input block
  ConvBackwardDataFn backward_data = nullptr;                          // takes reversed weights
  ConvBackwardWeightsFn backward_weights = nullptr;
};

// First input block that output block `ob` may touch, before it is moved to leave room for the
// widest band.
SUREFIT_SHAPE_FN int direct_band_lowest(int in, int out, int groups, int ob) {
  return ob * 8 / (out / groups) * (in / groups) / 8;
}
SUREFIT_SHAPE_FN int direct_band_width(int in, int out, int groups) {
  int width = 1;
  for (int ob = 0; ob < channel_blocks(out); ++ob) {
    const int last_group = at_most(ob * 8 + 7, out - 1) / (out / groups);
    const int end = channel_blocks((last_group + 1) * (in / groups));
    width = at_least(end - direct_band_lowest(in, out, groups, ob), width);
  }
  return width;
}
// Bands all have the same width; those at the end begin earlier.
SUREFIT_SHAPE_FN int direct_band_first(int in, int out, int groups, int ob, int width) {
  return at_most(direct_band_lowest(in, out, groups, ob), channel_blocks(in) - width);
}

SUREFIT_SHAPE_FN std::size_t direct_weights_floats(const ConvShape& s) {
  return std::size_t(channel_blocks(s.oc)) * std::size_t(direct_band_width(s.ic, s.oc, s.groups)) *
         std::size_t(s.kh) * std::size_t(s.kw) * 64;
}
SUREFIT_SHAPE_FN std::size_t direct_reversed_floats(const ConvShape& s) {
  return std::size_t(channel_blocks(s.ic)) * std::size_t(direct_band_width(s.oc, s.ic, s.groups)) *
         std::size_t(s.kh) * std::size_t(s.kw) * 64;
}

// A 1x1 convolution without stride and padding is one long row of pixels.
SUREFIT_SHAPE_FN ConvShape direct_flattened(ConvShape s) {
  if (s.kh == 1 && s.kw == 1 && s.stride_h == 1 && s.stride_w == 1 && s.pad_top == 0 &&
      s.pad_left == 0 && s.oh == s.h && s.ow == s.w) {
    s.w = s.ow = s.h * s.w;
    s.h = s.oh = 1;
  }
  return s;
}

// Whether what pixels read is gathered first (conv_direct_strips.cpp). It pays where several output
// blocks share it (64 to 128 channels, stride 2: 105 against 93 GFLOP/s on one core; 512 channels
// at 14x14: 101 against 77); a 1x1 convolution without stride has its pixels in order anyway.
inline constexpr int kStripClasses = 16;  // most strides in both directions
SUREFIT_SHAPE_FN bool direct_in_strips(const ConvShape& s, bool backward_data) {
  return s.groups == 1 && s.kh * s.kw * s.stride_h * s.stride_w > 1 &&
         s.stride_h * s.stride_w <= kStripClasses &&
         channel_blocks(backward_data ? s.ic : s.oc) >= 6;
}

// Multiples i * stride + shift in [0, limit), of i in [0, count).
SUREFIT_SHAPE_FN int places_inside(int count, int stride, int shift, int limit) {
  const int first = shift >= 0 ? 0 : ceil_div(-shift, stride);
  const int end = shift >= limit ? 0 : ceil_div(limit - shift, stride);
  return at_least(at_most(end, count) - first, 0);
}

// Whether tiles go across samples (conv_direct_samples.cpp). It pays where a row of pixels reads a
// quarter more than there is, and the pictures of a tile stay in cache.
SUREFIT_SHAPE_FN bool direct_by_samples(const ConvShape& s, bool backward_data) {
  const int blocks = channel_blocks(backward_data ? s.oc : s.ic);
  const int pixels = backward_data ? s.oh * s.ow : s.h * s.w;
  if (s.groups != 1 || pixels * blocks > 512 || direct_in_strips(s, backward_data)) return false;
  int reads = 0, inside = 0;  // of a row, over the taps of a kernel row
  for (int k = 0; k < s.kw; ++k) {
    const int shift = k * s.dilation_w - s.pad_left;
    const int first = ((shift % s.stride_w) + s.stride_w) % s.stride_w;  // column a tap can reach
    reads += backward_data ? places_inside(s.w, s.stride_w, first, s.w) : s.ow;
    inside += places_inside(s.ow, s.stride_w, shift, s.w);
  }
  return reads * 4 >= inside * 5;
}

// With fewer of them a tile across samples has too few sums at a time, even of two rows.
inline constexpr int kDirectSamplesWorthSplitting = 4;
inline constexpr int kRowsAcrossSamples = 2;

// Pixels of a class that are gathered at a time.
inline constexpr int kStripPixels = 48;
// Input blocks whose weights go round together. Backward-data with a stride reads a few taps of
// each block, in no order, and wants them nearer.
SUREFIT_SHAPE_FN int strip_blocks(const ConvShape& s, bool backward_data) {
  const bool strided = s.stride_h * s.stride_w > 1;
  return at_least((backward_data && strided ? 36 : 72) / (s.kh * s.kw), 1);
}

// How a pass is cut: by output channels where the weights are large (each task keeps its share in
// cache over all samples of the call), by pixels elsewhere: in strips by strips, otherwise by rows
// or, in a flat picture, by columns. A tile of a row covers `unit` output blocks: three where rows
// are too short to fill the registers with pixels.
struct DirectSplit {
  int parts;
  bool by_channels;
  int unit;
};

SUREFIT_SHAPE_FN DirectSplit direct_split(const ConvShape& shape, bool backward_data) {
  const ConvShape s = direct_flattened(shape);
  const std::size_t floats = backward_data ? direct_reversed_floats(s) : direct_weights_floats(s);
  const int out_blocks = channel_blocks(backward_data ? s.ic : s.oc);
  const int rows = backward_data ? s.h : s.oh, columns = backward_data ? s.w : s.ow;
  const int row_pixels = backward_data ? ceil_div(columns, s.stride_w) : columns;
  const int unit = row_pixels <= 4 || row_pixels == 7 || row_pixels == 8 ? 3 : 2;
  if (direct_in_strips(s, backward_data)) {
    if (floats > 131072) return {ceil_div(out_blocks, 12), true, unit};
    const int class_rows = backward_data ? ceil_div(rows, s.stride_h) : rows;
    return {ceil_div(class_rows * row_pixels, kStripPixels), false, unit};
  }
  if (floats > 131072) {
    return {at_most(int(floats / 65536), ceil_div(out_blocks, unit)), true, unit};
  }
  if (direct_by_samples(s, backward_data))
    return {ceil_div(rows, kRowsAcrossSamples), false, at_most(out_blocks, 3)};
  const double flops = 2.0 * double(floats) * s.oh * s.ow;
  const int units = rows == 1 ? ceil_div(columns, 24) : rows;
  return {row_blocks(units, flops / units), false, unit};
}
SUREFIT_SHAPE_FN int direct_forward_blocks(const ConvShape& s) {
  return direct_split(s, false).parts;
}
SUREFIT_SHAPE_FN int direct_backward_data_blocks(const ConvShape& s) {
  return direct_split(s, true).parts;
}
SUREFIT_SHAPE_FN int direct_reverse_blocks(const ConvShape& s) {
  return channel_blocks(s.ic);
}

// Samples a call should cover so that large weights are read from cache, or tiles are full.
SUREFIT_SHAPE_FN int direct_sample_group(const ConvShape& s, bool backward_data) {
  if (direct_by_samples(s, backward_data)) return 2 * kDirectPixels;
  return direct_split(s, false).by_channels ? at_least(256 / (s.oh * s.ow), 1) : 1;
}

SUREFIT_SHAPE_FN std::size_t direct_pass_scratch_bytes(const ConvShape& s, bool backward_data) {
  const std::size_t taps = std::size_t(s.kh) * std::size_t(s.kw);
  const int width = backward_data ? direct_band_width(s.oc, s.ic, s.groups)
                                  : direct_band_width(s.ic, s.oc, s.groups);
  if (!direct_in_strips(s, backward_data)) {
    return taps * (2 * sizeof(SweepTap) + std::size_t(width) * kDirectPixels * 8 * sizeof(float));
  }
  const std::size_t classes = backward_data ? std::size_t(s.stride_h) * std::size_t(s.stride_w) : 1;
  const std::size_t blocks = std::size_t(at_most(strip_blocks(s, backward_data), width));
  return taps * sizeof(SweepTap) + (taps + classes) * kStripPixels * sizeof(int) +
         taps * blocks * kStripPixels * 8 * sizeof(float);
}
SUREFIT_SHAPE_FN std::size_t direct_scratch_bytes(const ConvShape& s) {
  const std::size_t forward = direct_pass_scratch_bytes(s, false);
  const std::size_t back = direct_pass_scratch_bytes(s, true);
  return forward > back ? forward : back;
}

// Backward-weights: six output blocks by a range of their band, and of the taps where there would
// be too few tasks.
inline constexpr int kDirectGradientBlocks = 6;
struct DirectGradientCut {
  int block_parts, band_parts, tap_parts;
};
SUREFIT_SHAPE_FN DirectGradientCut direct_gradient_cut(const ConvShape& s) {
  const int parts = ceil_div(channel_blocks(s.oc), kDirectGradientBlocks);
  const int band = at_most(ceil_div(24, parts), direct_band_width(s.ic, s.oc, s.groups));
  return {parts, band, at_most(ceil_div(8, parts * band), s.kh * s.kw)};
}
// What a block computes: output blocks, slots of their band, taps (kh * KW + kw).
struct DirectGradientBlock {
  int ob_begin, ob_end, slot_begin, slot_end, tap_begin, tap_end;
};
SUREFIT_SHAPE_FN DirectGradientBlock direct_gradient_block(const ConvShape& s, int block) {
  const DirectGradientCut cut = direct_gradient_cut(s);
  const int tap_part = block % cut.tap_parts, band_part = block / cut.tap_parts % cut.band_parts;
  const int ob_begin = block / cut.tap_parts / cut.band_parts * kDirectGradientBlocks;
  const int width = direct_band_width(s.ic, s.oc, s.groups), taps = s.kh * s.kw;
  return {ob_begin,
          at_most(ob_begin + kDirectGradientBlocks, channel_blocks(s.oc)),
          part_begin(width, cut.band_parts, band_part),
          part_begin(width, cut.band_parts, band_part + 1),
          part_begin(taps, cut.tap_parts, tap_part),
          part_begin(taps, cut.tap_parts, tap_part + 1)};
}
SUREFIT_SHAPE_FN int direct_backward_weights_blocks(const ConvShape& s) {
  const DirectGradientCut cut = direct_gradient_cut(s);
  return cut.block_parts * cut.band_parts * cut.tap_parts;
}

}  // namespace surefit::kernels
