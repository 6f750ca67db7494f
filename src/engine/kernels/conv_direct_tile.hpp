// SPDX-License-Identifier: Apache-2.0
// What both ways of sweeping a picture share: the register tile of direct convolution.
#pragma once

#include <type_traits>

#include "engine/kernels/conv_direct.hpp"
#include "engine/kernels/conv_sweep.hpp"
#include "engine/kernels/vec16.hpp"

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
template <int R>
struct PixelsInRow {
  std::ptrdiff_t step, dst_step;

  // The pixels under a tap. Three of them share an address, plus 0, 1 and 2 steps: with one each,
  // twelve pixels leave no registers for anything else.
  struct Tap {
    const float* first[(R + 2) / 3];
    std::ptrdiff_t step;

    SUREFIT_INLINE const float* pixel(int r) const { return first[r / 3] + r % 3 * step; }
  };
  SUREFIT_INLINE Tap tap(const float* x, const TapList& list, int t) const {
    return at(x + list.taps[t].src);
  }
  SUREFIT_INLINE Tap at(const float* x) const {
    Tap tap;
    tap.step = step;
    unroll<(R + 2) / 3>([&](auto i) SUREFIT_LAMBDA {
      tap.first[i] = x + 3 * i * step;
      asm("" : "+r"(tap.first[i]));  // or the compiler goes back to one each
    });
    return tap;
  }
  SUREFIT_INLINE std::ptrdiff_t dst(int r) const { return r * dst_step; }
};
// or gathered from anywhere, [tap][R].
template <int R>
struct PixelsGathered {
  const int* dst_at;

  struct Tap {
    const float* first;

    SUREFIT_INLINE const float* pixel(int r) const { return first + std::ptrdiff_t(r) * 8; }
  };
  SUREFIT_INLINE Tap tap(const float* x, const TapList&, int t) const {
    return {x + std::ptrdiff_t(t) * R * 8};
  }
  SUREFIT_INLINE std::ptrdiff_t dst(int r) const { return dst_at[r]; }
};

// The sums of B blocks of R rows: in pairs where sixteen floats are one register.
template <int R, int B>
struct BlockSums {
  static constexpr int kPairs = kWide ? B / 2 : 0, kSingles = B - 2 * kPairs;
  V16 pairs[R][kPairs > 0 ? kPairs : 1];
  V8 singles[R][kSingles > 0 ? kSingles : 1];

  // f(V16 or V8&, block) for every vector of row `r`.
  template <class F>
  SUREFIT_INLINE void each(int r, F f) {
    unroll<kPairs>([&](auto p) SUREFIT_LAMBDA { f(pairs[r][p], Int<2 * p.value>{}); });
    unroll<kSingles>([&](auto i) SUREFIT_LAMBDA { f(singles[r][i], Int<2 * kPairs + i.value>{}); });
  }
  // Adds the products of x and B blocks, `apart` floats apart, row by row.
  template <class Factor>
  SUREFIT_INLINE void multiply_add(const float* blocks, std::ptrdiff_t apart, Factor x) {
    V16 wide[kPairs > 0 ? kPairs : 1];
    V8 narrow[kSingles > 0 ? kSingles : 1];
    unroll<kPairs>([&](auto p) SUREFIT_LAMBDA {
      wide[p] = hold(load_blocks<V16>(blocks + 2 * p * apart, apart));
    });
    unroll<kSingles>(
        [&](auto i) SUREFIT_LAMBDA { narrow[i] = hold(load(blocks + (2 * kPairs + i) * apart)); });
    unroll<R>([&](auto r) SUREFIT_LAMBDA {
      const float factor = x(r);
      if constexpr (kPairs > 0) {
        const V16 f = splat16(factor);
        unroll<kPairs>([&](auto p) SUREFIT_LAMBDA { pairs[r][p] += f * wide[p]; });
      }
      if constexpr (kSingles > 0) {
        const V8 f = splat(factor);
        unroll<kSingles>([&](auto i) SUREFIT_LAMBDA { singles[r][i] += f * narrow[i]; });
      }
    });
  }
};

// R pixels of B output blocks.
template <int R, int B, class Pixels>
SUREFIT_INLINE void direct_tile(const float* x, const Pixels& pixels, std::ptrdiff_t x_block,
                                const TapList& list, const BlockRange& range, const float* w,
                                std::ptrdiff_t w_in_block, std::ptrdiff_t w_out_block,
                                const float* bias, float* dst, std::ptrdiff_t dst_block,
                                bool rectify) {
  BlockSums<R, B> sums;
  unroll<R>([&](auto r) SUREFIT_LAMBDA {
    sums.each(r, [&](auto& sum, auto b) SUREFIT_LAMBDA {
      using V = std::remove_reference_t<decltype(sum)>;
      const V start = bias != nullptr ? load_vector<V>(bias + b * 8) : V{};
      sum = range.first ? start : load_blocks<V>(dst + b * dst_block + pixels.dst(r), dst_block);
    });
  });
  for (int block = range.begin; block < range.end; ++block, x += x_block, w += w_in_block) {
    for (int t = 0; t < list.count; ++t) {
      const auto tap = pixels.tap(x, list, t);
      const float* wp = w + std::ptrdiff_t(list.taps[t].index) * 64;
#pragma GCC unroll 4
      for (int i = 0; i < 8; ++i) {
        sums.multiply_add(wp + i * 8, w_out_block,
                          [&](auto r) SUREFIT_LAMBDA { return tap.pixel(r)[i]; });
      }
    }
  }
  unroll<R>([&](auto r) SUREFIT_LAMBDA {
    sums.each(r, [&](auto& sum, auto b) SUREFIT_LAMBDA {
      store_blocks(dst + b * dst_block + pixels.dst(r), dst_block, rectify ? relu(sum) : sum);
    });
  });
}

// Pixels of a tile of B output blocks: as many sums as registers hold beside weights and a pixel.
template <int B>
inline constexpr int kTilePixels = kWide ? kDirectPixels : kDirectPixels / B;
// Output blocks of a tile, where the shape asks for `unit`.
SUREFIT_INLINE int tile_blocks(int unit) {
  return kWide && unit == 2 ? 4 : unit;
}
inline constexpr int kMostTileBlocks = kWide ? 4 : 3;

// A tile of gathered pixels.
inline constexpr int kStripBlocks = kMostTileBlocks;
inline constexpr int kStripTile = kTilePixels<kStripBlocks>;

// One task of forward or backward-data whose pixels are gathered (direct_in_strips).
void direct_strips(const DirectSweep& v, const DirectSplit& split, Samples samples, int block,
                   float* scratch);
// One whose tiles go across samples (direct_by_samples).
void direct_samples(const DirectSweep& v, const DirectSplit& split, Samples samples, int block,
                    float* scratch);

}  // namespace surefit::kernels::SUREFIT_ISA
