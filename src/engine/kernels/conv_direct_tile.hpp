// SPDX-License-Identifier: Apache-2.0
// What both ways of sweeping a picture share: the register tile of direct convolution.
#pragma once

#include "engine/kernels/conv_direct.hpp"
#include "engine/kernels/conv_sweep.hpp"
#include "engine/kernels/unroll.hpp"

namespace surefit::kernels::SUREFIT_ISA {

struct DirectSweep : SweepShape {
  int in_channels, out_channels, width;  // width of the band of input blocks
  const float* src;
  std::ptrdiff_t src_stride;
  const float* weights;
  const float* bias;
  float* dst;
  std::ptrdiff_t dst_stride;
  bool rectify;
};

// A range of the band's input blocks. Sums go on in dst from one range to the next, so ranges leave
// no trace in the bits; they keep the weights of a tile in cache.
struct BlockRange {
  int begin, end;
  bool first, last;
};

// Where a tile finds its pixels in the input, and its outputs in dst: in a row (or one in every
// sample),
struct PixelsInRow {
  std::ptrdiff_t step, dst_step;

  SUREFIT_INLINE const float* tap(const float* x, const TapList& list, int t) const {
    return x + list.taps[t].src;
  }
  SUREFIT_INLINE std::ptrdiff_t pixel(int r) const { return r * step; }
  SUREFIT_INLINE std::ptrdiff_t dst(int r) const { return r * dst_step; }
};
// or gathered from anywhere, [tap][R].
template <int R>
struct PixelsGathered {
  const int* dst_at;

  SUREFIT_INLINE const float* tap(const float* x, const TapList&, int t) const {
    return x + std::ptrdiff_t(t) * R * 8;
  }
  SUREFIT_INLINE std::ptrdiff_t pixel(int r) const { return std::ptrdiff_t(r) * 8; }
  SUREFIT_INLINE std::ptrdiff_t dst(int r) const { return dst_at[r]; }
};

// R pixels of B output blocks.
template <int R, int B, class Pixels>
SUREFIT_INLINE void direct_tile(const float* x, const Pixels& pixels, std::ptrdiff_t x_block,
                                const TapList& list, const BlockRange& range, const float* w,
                                std::ptrdiff_t w_in_block, std::ptrdiff_t w_out_block,
                                const float* bias, float* dst, std::ptrdiff_t dst_block,
                                bool rectify) {
  V8 acc[R][B];
  unroll<B>([&](auto b) SUREFIT_LAMBDA {
    const V8 start = bias != nullptr ? load(bias + b * 8) : V8{};
    unroll<R>([&](auto r) SUREFIT_LAMBDA {
      acc[r][b] = range.first ? start : load(dst + b * dst_block + pixels.dst(r));
    });
  });
  for (int block = range.begin; block < range.end; ++block, x += x_block, w += w_in_block) {
    for (int t = 0; t < list.count; ++t) {
      const float* xp = pixels.tap(x, list, t);
      const float* wp = w + std::ptrdiff_t(list.taps[t].index) * 64;
#pragma GCC unroll 4
      for (int i = 0; i < 8; ++i) {
        V8 wv[B];
        unroll<B>([&](auto b)
                      SUREFIT_LAMBDA { wv[b] = hold(load(wp + b * w_out_block + i * 8)); });
        unroll<R>([&](auto r) SUREFIT_LAMBDA {
          const V8 xv = splat(xp[pixels.pixel(r) + i]);
          unroll<B>([&](auto b) SUREFIT_LAMBDA { acc[r][b] += xv * wv[b]; });
        });
      }
    }
  }
  unroll<R>([&](auto r) SUREFIT_LAMBDA {
    unroll<B>([&](auto b) SUREFIT_LAMBDA {
      store(dst + b * dst_block + pixels.dst(r), rectify ? relu(acc[r][b]) : acc[r][b]);
    });
  });
}

// A tile of gathered pixels: as many sums as registers hold beside the weights and a pixel.
inline constexpr int kStripTile = kRegisters == 32 ? 6 : 4;
inline constexpr int kStripBlocks = kRegisters == 32 ? 4 : 3;

// One task of forward or backward-data whose pixels are gathered (direct_in_strips).
void direct_strips(const DirectSweep& v, const DirectSplit& split, Samples samples, int block,
                   float* scratch);
// One whose tiles go across samples (direct_by_samples).
void direct_samples(const DirectSweep& v, const DirectSplit& split, Samples samples, int block,
                    float* scratch);

}  // namespace surefit::kernels::SUREFIT_ISA
