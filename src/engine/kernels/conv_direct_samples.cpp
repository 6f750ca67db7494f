// SPDX-License-Identifier: Apache-2.0
// Forward and backward-data of small pictures under large kernels, where much of what a row of
// pixels would read lies outside. A tile is one pixel of several samples: all of them are reached
// by the same taps, so nothing outside is read or multiplied. (LeNet-5's 5x5 backward-data, one
// core: 21 to 50 GFLOP/s, where six lanes of eight allow 76.)
#include "engine/kernels/conv_direct_tile.hpp"

namespace surefit::kernels::SUREFIT_ISA {

namespace {

// The taps of a row that reach column `at` of their class.
TapList reaching(const SweepShape& v, const TapList& row, int at, SweepTap* taps) {
  int count = 0;
  for (int t = 0; t < row.count; ++t) {
    const int column = row.taps[t].column + at * v.step;
    if (column >= 0 && column < v.in_w) taps[count++] = row.taps[t];
  }
  return {taps, count};
}

// One row of B output blocks and R samples, from `first` on.
template <int R, int B>
void row_of_samples(const DirectSweep& v, int first, int ob, int row, SweepTap* taps) {
  const std::ptrdiff_t plane = std::ptrdiff_t(v.in_h) * v.in_w * 8;
  const std::ptrdiff_t w_in = std::ptrdiff_t(v.s.kh) * v.s.kw * 64, w_out = w_in * v.width;
  const std::ptrdiff_t dst_block = std::ptrdiff_t(v.out_h) * v.out_w * 8;
  const float* src = v.src + first * v.src_stride;
  const float* bias = v.bias == nullptr ? nullptr : v.bias + ob * 8;
  float* dst = v.dst + first * v.dst_stride + ob * dst_block + std::ptrdiff_t(row) * v.out_w * 8;
  SweepTap* const pixel_taps = taps + v.s.kh * v.s.kw;
  for (int c = 0; c < at_most(v.classes, v.out_w); ++c) {
    const TapList list = taps_of(v, row, c, taps);
    for (int at = 0; at * v.classes + c < v.out_w; ++at) {
      direct_tile<R, B>(
          src + std::ptrdiff_t(at) * v.step * 8, PixelsInRow<R>{v.src_stride, v.dst_stride}, plane,
          reaching(v, list, at, pixel_taps), {0, v.width, true, true}, v.weights + ob * w_out, w_in,
          w_out, bias, dst + (at * v.classes + c) * 8, dst_block, v.rectify);
    }
  }
}

template <int B>
void rows_of_samples(const DirectSweep& v, Samples samples, int ob, int row_begin, int row_end,
                     SweepTap* taps) {
  constexpr int kSamples = kTilePixels<B>;
  const int count = samples.end - samples.begin, tiles = ceil_div(count, kSamples);
  for (int t = 0; t < tiles; ++t) {
    const int first = samples.begin + part_begin(count, tiles, t);
    const int size = samples.begin + part_begin(count, tiles, t + 1) - first;
    with_count<kSamples>(size, [&](auto r) SUREFIT_LAMBDA {
      for (int row = row_begin; row < row_end; ++row)
        row_of_samples<r.value, B>(v, first, ob, row, taps);
    });
  }
}

}  // namespace

void direct_samples(const DirectSweep& v, const DirectSplit& split, Samples samples, int block,
                    float* scratch) {
  const int obs = channel_blocks(v.out_channels);
  for (int ob = 0; ob < obs; ob += split.unit) {
    with_count<3>(at_most(split.unit, obs - ob), [&](auto b) SUREFIT_LAMBDA {
      rows_of_samples<b.value>(v, samples, ob, part_begin(v.out_h, split.parts, block),
                               part_begin(v.out_h, split.parts, block + 1),
                               reinterpret_cast<SweepTap*>(scratch));
    });
  }
}

}  // namespace surefit::kernels::SUREFIT_ISA
