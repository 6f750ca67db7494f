// SPDX-License-Identifier: Apache-2.0
// Forward and backward-data of small pictures under large kernels, where much of what a row of
// pixels would read lies outside. A tile is one pixel of several samples: all of them are reached
// by the same taps, so nothing outside is read or multiplied. (LeNet-5's 5x5 backward-data, one
// core: 21 to 50 GFLOP/s, where six lanes of eight allow 76.) With one output block it is two
// neighbouring pixels, most of whose inputs are the same.
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

// A column of input that one or both of two neighbouring pixels read.
struct SharedColumn {
  int column;
  int left, right;  // which tap of a kernel row each of them takes there, or -1
};

// Whether neighbours share columns: the taps of a kernel row follow each other, in either
// direction, as pixels do. `group` is how many taps a kernel row has.
struct Sharing {
  int group = 0;
  bool descending = false;
};
Sharing sharing_of(const SweepShape& v, const TapList& row) {
  Sharing sharing;
  while (sharing.group < row.count && row.taps[sharing.group].row == row.taps[0].row)
    ++sharing.group;
  if (sharing.group < 2) return {};
  const int step = row.taps[1].column - row.taps[0].column;
  if (step != v.step && step != -v.step) return {};
  sharing.descending = step < 0;
  return sharing;
}

// The columns that pixels `at` and `at` + 1 read under a kernel row, in the order of the taps of
// both.
int shared_columns(const SweepShape& v, const TapList& row, Sharing sharing, int at,
                   SharedColumn* out) {
  const int group = sharing.group;
  int count = 0;
  // One of the pixels is ahead: it has reached every column a tap before the other.
  for (int ahead = 0; ahead <= group; ++ahead) {
    const int behind = ahead - 1;
    const int left = sharing.descending ? behind : ahead;
    const int right = sharing.descending ? ahead : behind;
    const bool has_left = left >= 0 && left < group, has_right = right >= 0 && right < group;
    const int column =
        has_left ? row.taps[left].column + at * v.step : row.taps[right].column + (at + 1) * v.step;
    if (column < 0 || column >= v.in_w) continue;
    out[count++] = {column, has_left ? left : -1, has_right ? right : -1};
  }
  return count;
}

// Two neighbouring pixels of R samples. Every sum has the order that it has in direct_tile. A
// kernel row has all its taps in the list (there are no column classes), one behind the other.
template <int R>
void two_pixels(const DirectSweep& v, const float* src, const TapList& row, int group,
                const SharedColumn* columns, int count, const float* w, const float* bias,
                float* dst) {
  const PixelsInRow<R> pixels{v.src_stride, v.dst_stride};
  const std::ptrdiff_t plane = std::ptrdiff_t(v.in_h) * v.in_w * 8;
  const std::ptrdiff_t w_in = std::ptrdiff_t(v.s.kh) * v.s.kw * 64;
  V8 left[R], right[R];
  unroll<R>([&](auto r)
                SUREFIT_LAMBDA { left[r] = right[r] = bias != nullptr ? load(bias) : V8{}; });
  const auto step = [&](const float* x, const float* taps, const SharedColumn& at) SUREFIT_LAMBDA {
    const auto pixel = pixels.at(x + std::ptrdiff_t(at.column) * 8);
    const auto one = [&](V8(&sums)[R], int tap) SUREFIT_LAMBDA {
      const float* const own = taps + std::ptrdiff_t(tap) * 64;
      for (int i = 0; i < 8; ++i) {
        const V8 wv = hold(load(own + i * 8));
        unroll<R>([&](auto r) SUREFIT_LAMBDA { sums[r] += splat(pixel.pixel(r)[i]) * wv; });
      }
    };
    if (at.right < 0) return one(left, at.left);
    if (at.left < 0) return one(right, at.right);
    const float* const to_left = taps + std::ptrdiff_t(at.left) * 64;
    const float* const to_right = taps + std::ptrdiff_t(at.right) * 64;
    for (int i = 0; i < 8; ++i) {
      const V8 wl = hold(load(to_left + i * 8)), wr = hold(load(to_right + i * 8));
      unroll<R>([&](auto r) SUREFIT_LAMBDA {
        const V8 x_r = hold(splat(pixel.pixel(r)[i]));
        left[r] += x_r * wl;
        right[r] += x_r * wr;
      });
    }
  };
  for (int block = 0; block < v.width; ++block, src += plane, w += w_in) {
    for (int k = 0; k < row.count; k += group) {
      const float* const x = src + std::ptrdiff_t(row.taps[k].row) * v.in_w * 8;
      const float* const taps = w + std::ptrdiff_t(row.taps[k].index) * 64;
      for (int c = 0; c < count; ++c) step(x, taps, columns[c]);
    }
  }
  unroll<R>([&](auto r) SUREFIT_LAMBDA {
    store(dst + pixels.dst(r), v.rectify ? relu(left[r]) : left[r]);
    store(dst + 8 + pixels.dst(r), v.rectify ? relu(right[r]) : right[r]);
  });
}

// Samples of a tile of B output blocks. Of one block there are two pixels each.
template <int B>
constexpr int kTileSamples = B > 1 || kWide ? kTilePixels<B> : kTilePixels<B> / 2;

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
    int at = 0;
    if constexpr (B == 1) {
      auto* columns = reinterpret_cast<SharedColumn*>(pixel_taps);
      const Sharing sharing = v.classes == 1 ? sharing_of(v, list) : Sharing{};
      for (; sharing.group > 0 && at + 2 <= v.out_w; at += 2) {
        const int count = shared_columns(v, list, sharing, at, columns);
        two_pixels<R>(v, src, list, sharing.group, columns, count, v.weights + ob * w_out, bias,
                      dst + at * 8);
      }
    }
    for (; at * v.classes + c < v.out_w; ++at) {
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
  constexpr int kSamples = kTileSamples<B>;
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
