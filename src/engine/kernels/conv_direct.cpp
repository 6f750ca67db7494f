// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/conv_direct.hpp"

#include <cstring>

#include "engine/kernels/ahead.hpp"
#include "engine/kernels/conv_direct_tile.hpp"
#include "engine/kernels/table.hpp"
#include "engine/kernels/vec_math.hpp"

namespace surefit::kernels::SUREFIT_ISA {

namespace {

// Copies what a tile at the picture's edge reads, zeros where it reads outside:
// [block][tap][pixel][8].
TapList stage(const DirectSweep& v, const TapList& list, const BlockRange& range, const float* x,
              int first, int pixels, SweepTap* staged_taps, float* staged) {
  const std::ptrdiff_t plane = std::ptrdiff_t(v.in_h) * v.in_w * 8;
  for (int block = 0; block < range.end - range.begin; ++block) {
    for (int t = 0; t < list.count; ++t) {
      const SweepTap& tap = list.taps[t];
      for (int r = 0; r < pixels; ++r, staged += 8) {
        const int column = tap.column + (first + r) * v.step;
        const bool valid = column >= 0 && column < v.in_w;
        const float* at = x + block * plane + (std::ptrdiff_t(tap.row) * v.in_w + column) * 8;
        store(staged, valid ? load(at) : V8{});
      }
    }
  }
  for (int t = 0; t < list.count; ++t) {
    staged_taps[t] = {std::ptrdiff_t(t) * pixels * 8, list.taps[t].index, 0, 0};
  }
  return {staged_taps, list.count};
}

// Pixels [begin, end) of one row and column class for B output blocks.
template <int B>
void row_tiles(const DirectSweep& v, const TapList& list, const BlockRange& range, int ob,
               int sample, int row, int column_class, int begin, int end, SweepTap* staged_taps,
               float* staged, Asking<false>& inputs) {
  constexpr int kPixels = kTilePixels<B>;
  const int first_in = direct_band_first(v.in_channels, v.out_channels, v.s.groups, ob, v.width);
  const std::ptrdiff_t plane = std::ptrdiff_t(v.in_h) * v.in_w * 8;
  const std::ptrdiff_t w_in = std::ptrdiff_t(v.s.kh) * v.s.kw * 64, w_out = w_in * v.width;
  const std::ptrdiff_t dst_block = std::ptrdiff_t(v.out_h) * v.out_w * 8;
  const std::ptrdiff_t dst_pixel = std::ptrdiff_t(v.classes) * 8;
  const float* x = v.src + sample * v.src_stride + (first_in + range.begin) * plane;
  const float* w = v.weights + ob * w_out + range.begin * w_in;
  float* dst = v.dst + sample * v.dst_stride + ob * dst_block +
               (std::ptrdiff_t(row) * v.out_w + column_class) * 8;
  const int tiles = ceil_div(end - begin, kPixels);
  for (int t = 0; t < tiles; ++t) {
    const int at = begin + part_begin(end - begin, tiles, t);
    const int count = begin + part_begin(end - begin, tiles, t + 1) - at;
    TapList use = list;
    const float* from = x + std::ptrdiff_t(at) * v.step * 8;
    std::ptrdiff_t pixel = std::ptrdiff_t(v.step) * 8, block = plane;
    if (!inside(v, list, at, count)) {
      use = stage(v, list, range, x, at, count, staged_taps, staged);
      from = staged;
      pixel = 8;
      block = std::ptrdiff_t(list.count) * count * 8;
    }
    inputs.ask();
    with_count<kPixels>(count, [&](auto r) SUREFIT_LAMBDA {
      direct_tile<r.value, B>(from, PixelsInRow<r.value>{pixel, dst_pixel}, block, use, range, w,
                              w_in, w_out, v.bias == nullptr ? nullptr : v.bias + ob * 8,
                              dst + at * dst_pixel, dst_block, v.rectify && range.last);
    });
  }
}

// What the part of a flat picture behind `part` reads: the parts of a 1x1 convolution are stretches
// of many planes, too short for the hardware to see them coming (256 to 64 channels, 56x56: 63
// GFLOP/s without asking).
Ahead next_part(const DirectSweep& v, int sample, int part, int parts) {
  if (v.out_h > 1 || v.s.groups > 1) return {};
  const int begin = part_begin(v.out_w, parts, part + 1);
  const int end = part_begin(v.out_w, parts, part + 2);
  return {v.src + sample * v.src_stride + std::ptrdiff_t(begin) * v.step * 8,
          std::ptrdiff_t(v.in_h) * v.in_w * 8, v.width, ceil_div((end - begin) * v.step, 2)};
}

void rows(const DirectSweep& v, const DirectSplit& split, Samples samples, int block,
          float* scratch) {
  const int taps = v.s.kh * v.s.kw;
  SweepTap* own = reinterpret_cast<SweepTap*>(scratch);
  SweepTap* staged_taps = own + taps;
  float* staged = reinterpret_cast<float*>(staged_taps + taps);
  const int obs = channel_blocks(v.out_channels);
  int ob_begin = 0, ob_end = obs, row_begin = 0, row_end = v.out_h;
  int column_part = 0, column_parts = 1;
  if (split.by_channels) {
    const int units = ceil_div(obs, split.unit);
    ob_begin = split.unit * part_begin(units, split.parts, block);
    ob_end = at_most(split.unit * part_begin(units, split.parts, block + 1), obs);
  } else if (v.out_h == 1) {
    column_part = block;
    column_parts = split.parts;
  } else {
    row_begin = part_begin(v.out_h, split.parts, block);
    row_end = part_begin(v.out_h, split.parts, block + 1);
  }
  const auto band = [&](int ob) {
    return direct_band_first(v.in_channels, v.out_channels, v.s.groups, ob, v.width);
  };
  // At most 64 KB of weights for a pair of output blocks. A 1x1 convolution reads its pixels once
  // for every pair: where they are many, so many of them at a time as the first-level cache holds
  // (1024 to 256 channels at 14x14: 82 GFLOP/s, 56 without).
  int range_blocks = at_least(128 / taps, 1);
  const int block_bytes = (row_end - row_begin) * ceil_div(v.out_w, column_parts) * 32;
  if (taps == 1 && v.width * block_bytes > 65536) {
    range_blocks = at_least(24576 / block_bytes, 8);
  }
  const int ranges = ceil_div(v.width, range_blocks);
  const int unit = tile_blocks(split.unit);
  const int tiles =
      ranges * ceil_div(ob_end - ob_begin, unit) *
      ceil_div(ceil_div(v.out_w, column_parts), kWide ? kDirectPixels : kDirectPixels / unit);
  for (int n = samples.begin; n < samples.end; ++n) {
    Asking<false> inputs(next_part(v, n, column_part, column_parts), tiles);
    for (int i = 0; i < ranges; ++i) {
      const BlockRange range{part_begin(v.width, ranges, i), part_begin(v.width, ranges, i + 1),
                             i == 0, i + 1 == ranges};
      for (int ob = ob_begin; ob < ob_end;) {
        int blocks = 1;
        while (blocks < unit && ob + blocks < ob_end && band(ob + blocks) == band(ob)) {
          ++blocks;
        }
        for (int row = row_begin; row < row_end; ++row) {
          for (int c = 0; c < at_most(v.classes, v.out_w); ++c) {
            const TapList list = taps_of(v, row, c, own);
            const int pixels = ceil_div(v.out_w - c, v.classes);
            const int begin = part_begin(pixels, column_parts, column_part);
            const int end = part_begin(pixels, column_parts, column_part + 1);
            with_count<kMostTileBlocks>(blocks, [&](auto b) SUREFIT_LAMBDA {
              row_tiles<b.value>(v, list, range, ob, n, row, c, begin, end, staged_taps, staged,
                                 inputs);
            });
          }
        }
        ob += blocks;
      }
    }
  }
}

void run(const DirectSweep& v, Samples samples, int block, float* scratch) {
  const auto sweep = direct_in_strips(v.s, v.back)    ? direct_strips
                     : direct_by_samples(v.s, v.back) ? direct_samples
                                                      : rows;
  sweep(v, direct_split(v.s, v.back), samples, block, scratch);
}

void forward(const ConvForward& a, Samples samples, int block, float* scratch) {
  const ConvShape s = direct_flattened(a.shape);
  const DirectSweep v{sweep_shape(s, false),
                      s.ic,
                      s.oc,
                      direct_band_width(s.ic, s.oc, s.groups),
                      a.src,
                      a.src_stride,
                      a.weights,
                      a.bias,
                      a.dst,
                      a.dst_stride,
                      a.relu};
  run(v, samples, block, scratch);
}

void backward_data(const ConvBackwardData& a, Samples samples, int block, float* scratch) {
  const ConvShape s = direct_flattened(a.shape);
  const DirectSweep v{sweep_shape(s, true),
                      s.oc,
                      s.ic,
                      direct_band_width(s.oc, s.ic, s.groups),
                      a.diff_dst,
                      a.diff_dst_stride,
                      a.weights,
                      nullptr,
                      a.diff_src,
                      a.diff_src_stride,
                      false};
  run(v, samples, block, scratch);
}

void reverse_weights(const DirectReverse& a, int ib) {
  const ConvShape& s = a.shape;
  const int taps = s.kh * s.kw;
  const int width = direct_band_width(s.ic, s.oc, s.groups);
  const int reversed_width = direct_band_width(s.oc, s.ic, s.groups);
  const int first_ob = direct_band_first(s.oc, s.ic, s.groups, ib, reversed_width);
  for (int slot = 0; slot < reversed_width; ++slot) {
    const int ob = first_ob + slot;
    float* out = a.reversed + (std::ptrdiff_t(ib) * reversed_width + slot) * taps * 64;
    const int in_slot = ib - direct_band_first(s.ic, s.oc, s.groups, ob, width);
    if (in_slot < 0 || in_slot >= width) {
      std::memset(out, 0, sizeof(float) * std::size_t(taps) * 64);
      continue;
    }
    const float* w = a.weights + (std::ptrdiff_t(ob) * width + in_slot) * taps * 64;
    for (int t = 0; t < taps; ++t) {
      V8 rows[8];
      unroll<8>([&](auto i) SUREFIT_LAMBDA { rows[i] = load(w + t * 64 + i * 8); });
      transpose(rows);
      unroll<8>([&](auto i) SUREFIT_LAMBDA { store(out + t * 64 + i * 8, rows[i]); });
    }
  }
}

}  // namespace

void fill_direct_gradient(KernelTable& table);

void fill_direct(KernelTable& table) {
  table.direct.forward = forward;
  table.direct.reverse_weights = reverse_weights;
  table.direct.backward_data = backward_data;
  fill_direct_gradient(table);
}

}  // namespace surefit::kernels::SUREFIT_ISA
