// SPDX-License-Identifier: Apache-2.0
// The weight gradient of direct convolution. Per sample and per chunk of about 128 output pixels a
// partial sum in registers, added to diff_weights in order; small pictures go on with the sums of
// the samples before, because one of them is too short to pay for the way to memory and back.
#include <cstring>

#include "engine/kernels/bias_sum.hpp"
#include "engine/kernels/conv_direct_tile.hpp"
#include "engine/kernels/table.hpp"

namespace surefit::kernels::SUREFIT_ISA {

namespace {

constexpr int kChunkPixels = 128;
constexpr int kSmallPicture = 64;  // pixels

// Where one tap finds input: rows [row_begin, row_end) and columns [column_begin, column_end) of
// the output.
struct Area {
  int row_begin, row_end, column_begin, column_end;
};

SUREFIT_INLINE int round_up_div(int a, int b) {
  return a > 0 ? ceil_div(a, b) : 0;
}

Area clip(const ConvShape& s, int kh, int kw, Area area) {
  const int up = s.pad_top - kh * s.dilation_h, left = s.pad_left - kw * s.dilation_w;
  // oh * stride - up must lie in [0, h), and the same for columns.
  area.row_begin = at_least(area.row_begin, round_up_div(up, s.stride_h));
  area.column_begin = at_least(area.column_begin, round_up_div(left, s.stride_w));
  area.row_end = at_most(area.row_end, round_up_div(s.h + up, s.stride_h));
  area.column_end = at_most(area.column_end, round_up_div(s.w + left, s.stride_w));
  return area;
}

struct Rows {
  const float* x;   // input pixel of the area's first output pixel
  const float* dy;  // that output pixel
  std::ptrdiff_t x_pixel, x_row, x_sample, dy_row, dy_sample, dy_block;
  int rows, columns, samples;
};

// I input channels by B output blocks: their sums added to dw, or going on from it.
template <int I, int B, bool Continue>
SUREFIT_NOINLINE void outer_tile(const Rows& in, float* dw, std::ptrdiff_t dw_block) {
  BlockSums<I, B> sums;
  unroll<I>([&](auto i) SUREFIT_LAMBDA {
    sums.each(i, [&](auto& sum, auto b) SUREFIT_LAMBDA {
      using V = std::remove_reference_t<decltype(sum)>;
      sum = Continue ? load_blocks<V>(dw + b * dw_block + i * 8, dw_block) : V{};
    });
  });
  const std::ptrdiff_t x_pixel = in.x_pixel, dy_block = in.dy_block;
  const int columns = in.columns;
  for (int sample = 0; sample < in.samples; ++sample) {
    for (int row = 0; row < in.rows; ++row) {
      const float* x = in.x + sample * in.x_sample + row * in.x_row;
      const float* g = in.dy + sample * in.dy_sample + row * in.dy_row;
#pragma GCC unroll 2
      for (int p = 0; p < columns; ++p, x += x_pixel, g += 8)
        sums.multiply_add(g, dy_block, [&](auto i) SUREFIT_LAMBDA { return x[i]; });
    }
  }
  unroll<I>([&](auto i) SUREFIT_LAMBDA {
    sums.each(i, [&](auto& sum, auto b) SUREFIT_LAMBDA {
      using V = std::remove_reference_t<decltype(sum)>;
      float* out = dw + b * dw_block + i * 8;
      store_blocks(out, dw_block, Continue ? sum : load_blocks<V>(out, dw_block) + sum);
    });
  });
}

// Output blocks of a tile of eight input channels, or of four where there are 16 registers.
constexpr int kOuterBlocks = kWide ? kDirectGradientBlocks : 3;

struct Job {
  const ConvBackwardWeights& a;
  ConvShape s;
  DirectGradientBlock block;
  int width;  // of the band
  std::ptrdiff_t dw_slot, dw_block;

  SUREFIT_INLINE float* gradient(int ob, int slot, int tap) const {
    if (a.block_alone) {
      ob -= block.ob_begin;
      slot -= block.slot_begin;
      tap -= block.tap_begin;
    }
    return a.diff_weights + ob * dw_block + slot * dw_slot + tap * 64;
  }
};

// B output blocks with the same band over one chunk of output pixels, or over small pictures.
template <int B, bool Continue>
void chunk(const Job& job, int sample, int samples, int ob, int first_in, const Area& whole) {
  const ConvShape& s = job.s;
  const std::ptrdiff_t x_plane = std::ptrdiff_t(s.h) * s.w * 8;
  const std::ptrdiff_t dy_plane = std::ptrdiff_t(s.oh) * s.ow * 8;
  const float* dy = job.a.diff_dst + sample * job.a.diff_dst_stride + ob * dy_plane;
  for (int slot = job.block.slot_begin; slot < job.block.slot_end; ++slot) {
    const float* x = job.a.src + sample * job.a.src_stride + (first_in + slot) * x_plane;
    for (int tap = job.block.tap_begin; tap < job.block.tap_end; ++tap) {
      float* dw = job.gradient(ob, slot, tap);
      const int kh = tap / s.kw, kw = tap % s.kw;
      const Area area = clip(s, kh, kw, whole);
      if (area.row_begin >= area.row_end || area.column_begin >= area.column_end) continue;
      const int ih = area.row_begin * s.stride_h - s.pad_top + kh * s.dilation_h;
      const int iw = area.column_begin * s.stride_w - s.pad_left + kw * s.dilation_w;
      Rows in{x + (std::ptrdiff_t(ih) * s.w + iw) * 8,
              dy + (std::ptrdiff_t(area.row_begin) * s.ow + area.column_begin) * 8,
              std::ptrdiff_t(s.stride_w) * 8,
              std::ptrdiff_t(s.stride_h) * s.w * 8,
              job.a.src_stride,
              std::ptrdiff_t(s.ow) * 8,
              job.a.diff_dst_stride,
              dy_plane,
              area.row_end - area.row_begin,
              area.column_end - area.column_begin,
              samples};
      if constexpr (kWide || 8 * B + B < kRegisters) {
        outer_tile<8, B, Continue>(in, dw, job.dw_block);
      } else {
        outer_tile<4, B, Continue>(in, dw, job.dw_block);
        in.x += 4;
        outer_tile<4, B, Continue>(in, dw + 32, job.dw_block);
      }
    }
  }
}

// Calls f(dw, ob, slot) for every stretch of weights that the job owns: its taps of a slot.
template <class F>
SUREFIT_INLINE void for_stretches(const Job& job, F f) {
  for (int ob = job.block.ob_begin; ob < job.block.ob_end; ++ob) {
    for (int slot = job.block.slot_begin; slot < job.block.slot_end; ++slot)
      f(job.gradient(ob, slot, job.block.tap_begin), ob, slot);
  }
}

// Between channels of different groups there is no weight and must be no gradient.
void clear_between_groups(const Job& job) {
  const ConvShape& s = job.s;
  const int ocg = s.oc / s.groups, icg = s.ic / s.groups;
  const int floats = (job.block.tap_end - job.block.tap_begin) * 64;
  for_stretches(job, [&](float* dw, int ob, int slot) SUREFIT_LAMBDA {
    const int first_in = direct_band_first(s.ic, s.oc, s.groups, ob, job.width) + slot;
    for (int at = 0; at < floats; ++at) {
      const int i = first_in * 8 + at / 8 % 8, o = ob * 8 + at % 8;
      if (i / icg != o / ocg) dw[at] = 0.0F;
    }
  });
}

void backward_weights(const ConvBackwardWeights& a, Samples samples, int block, float*) {
  const ConvShape s = direct_flattened(a.shape);
  const DirectGradientBlock part = direct_gradient_block(s, block);
  const int ob_begin = part.ob_begin, ob_end = part.ob_end;
  const int width = direct_band_width(s.ic, s.oc, s.groups), taps = part.tap_end - part.tap_begin;
  const std::ptrdiff_t dw_slot = std::ptrdiff_t(a.block_alone ? taps : s.kh * s.kw) * 64;
  const int slots = a.block_alone ? part.slot_end - part.slot_begin : width;
  const Job job{a, s, part, width, dw_slot, dw_slot * slots};
  if (a.first) {
    const std::size_t bytes = sizeof(float) * 64 * std::size_t(taps);
    for_stretches(job, [&](float* dw, int, int) SUREFIT_LAMBDA { std::memset(dw, 0, bytes); });
  }
  const int rows = at_least(kChunkPixels / s.ow, 1);
  const int columns = at_most(s.ow, kChunkPixels * 2);
  const auto band = [&](int ob) { return direct_band_first(s.ic, s.oc, s.groups, ob, width); };
  const auto sum = [&](auto goes_on, int n, int count, const Area& area) SUREFIT_LAMBDA {
    for (int ob = ob_begin; ob < ob_end;) {
      int blocks = 1;
      while (blocks < kOuterBlocks && ob + blocks < ob_end && band(ob + blocks) == band(ob))
        ++blocks;
      with_count<kOuterBlocks>(blocks, [&](auto b) SUREFIT_LAMBDA {
        chunk<b.value, goes_on.value != 0>(job, n, count, ob, band(ob), area);
      });
      ob += blocks;
    }
  };
  if (s.oh * s.ow <= kSmallPicture) {
    sum(Int<1>{}, samples.begin, samples.end - samples.begin, {0, s.oh, 0, s.ow});
  } else {
    for (int n = samples.begin; n < samples.end; ++n) {
      for (int row = 0; row < s.oh; row += rows) {
        for (int column = 0; column < s.ow; column += columns) {
          sum(Int<0>{}, n, 1,
              {row, at_most(row + rows, s.oh), column, at_most(column + columns, s.ow)});
        }
      }
    }
  }
  if (s.groups > 1) clear_between_groups(job);
  if (a.diff_bias != nullptr && part.slot_begin == 0 && part.tap_begin == 0) {
    const BiasGradient bias{std::ptrdiff_t(s.oh) * s.ow, a.diff_dst, a.diff_dst_stride, a.diff_bias,
                            a.first};
    for (int ob = ob_begin; ob < ob_end; ++ob) bias_gradient(bias, samples, ob);
  }
}

}  // namespace

void fill_direct_gradient(KernelTable& table) {
  table.direct.backward_weights = backward_weights;
}

}  // namespace surefit::kernels::SUREFIT_ISA
