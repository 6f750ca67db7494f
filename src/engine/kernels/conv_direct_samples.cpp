// SPDX-License-Identifier: Apache-2.0
// Forward and backward-data of small pictures under large kernels, where much of what a row of
// pixels would read lies outside. A tile is one pixel of several samples: all of them are reached
// by the same taps, so nothing outside is read or multiplied. (LeNet-5's 5x5 backward-data, one
// core: 21 to 50 GFLOP/s, where six lanes of eight allow 76.) With one output block it is several
// neighbouring pixels, most of whose inputs are the same: two of them fill a register of sixteen.
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

// Whether neighbouring pixels share columns: from tap to tap of a kernel row it is as far as from
// pixel to pixel.
bool shares_columns(const SweepShape& v) {
  return v.classes == 1 && v.s.dilation_w == v.step;
}

// The sums of P neighbouring pixels in each of R rows, two pixels in a vector of sixteen floats
// where that is one register.
template <int R, int P>
struct PixelSums {
  static constexpr int kWidth = kWide && P % 2 == 0 ? 2 : 1, kVectors = P / kWidth;
  using V = std::conditional_t<kWidth == 2, V16, V8>;
  V sums[kVectors][R];

  SUREFIT_INLINE explicit PixelSums(const float* bias) {
    const V8 start = bias != nullptr ? load(bias) : V8{};
    unroll<kVectors>([&](auto vector) SUREFIT_LAMBDA {
      unroll<R>([&](auto r) SUREFIT_LAMBDA { put(sums[vector][r], start); });
    });
  }
  // Adds the products of x(r) and weights to pixels First to Last of rows [Begin, End); the weights
  // begin at `weights` and lie `apart` floats apart.
  template <int First, int Last, int Begin, int End, class Factor>
  SUREFIT_INLINE void multiply_add(const float* weights, std::ptrdiff_t apart, Factor x) {
    constexpr int kBegin = First / kWidth, kEnd = Last / kWidth + 1;
    V w[kEnd - kBegin];
    unroll<kEnd - kBegin>([&](auto i) SUREFIT_LAMBDA {
      constexpr int kPixel = (kBegin + i.value) * kWidth;
      w[i] = hold(at<First <= kPixel, kPixel + kWidth - 1 <= Last>(
          weights + (kPixel - First) * apart, apart));
    });
    unroll<End - Begin>([&](auto row) SUREFIT_LAMBDA {
      constexpr int kRow = Begin + row.value;
      const V x_r = hold(splat_of(x(Int<kRow>{})));
      unroll<kEnd - kBegin>([&](auto i) SUREFIT_LAMBDA {
        constexpr int kPixel = (kBegin + i.value) * kWidth;
        add<First <= kPixel, kPixel + kWidth - 1 <= Last>(sums[kBegin + i][kRow], x_r, w[i]);
      });
    });
  }
  SUREFIT_INLINE V8 pixel(int p, int r) const {
    const V& sum = sums[p / kWidth][r];
    if constexpr (kWidth == 1) {
      return sum;
    } else {
      return p % 2 == 0 ? low_half(sum) : high_half(sum);
    }
  }

 private:
  static SUREFIT_INLINE void put(V8& sum, V8 start) { sum = start; }
  static SUREFIT_INLINE V splat_of(float x) {
    if constexpr (kWidth == 1) {
      return splat(x);
    } else {
      return splat16(x);
    }
  }
  // Weights of a vector's pixels; of one alone in both halves.
  template <bool Low, bool High>
  static SUREFIT_INLINE V at(const float* weights, std::ptrdiff_t apart) {
    if constexpr (kWidth == 1) {
      return load(weights);
    } else {
      return join(load(weights + (Low ? 0 : apart)), load(weights + (High ? apart : 0)));
    }
  }
  template <bool Low, bool High>
  static SUREFIT_INLINE void add(V& sum, V x, V w) {
    if constexpr (kWidth == 1 || (Low && High)) {
      sum += x * w;
    } else {
      add_half<High>(sum, x, w);
    }
  }
#ifdef __AVX512F__
  static SUREFIT_INLINE void put(V16& sum, V8 start) {
    sum = join(start, start);
  }
  template <bool High>
  static SUREFIT_INLINE void add_half(V16& sum, V16 x, V16 w) {
    sum = reinterpret_cast<V16>(
        _mm512_mask3_fmadd_ps(reinterpret_cast<__m512>(x), reinterpret_cast<__m512>(w),
                              reinterpret_cast<__m512>(sum), __mmask16{High ? 0xff00 : 0x00ff}));
  }
#endif
};

// The rows of input under a kernel row, in the first of R samples: one for each of H output rows,
// or null where there is none.
template <int H>
struct InputRows {
  const float* row[H];
};

// What pixels First to Last of output rows [Begin, End) take from a column; `weights` are those of
// the first of them. (Not a lambda: the compiler keeps sums in memory if they are reached through a
// closure in a closure.)
template <int First, int Last, int Begin, int End, int R, int H, int P>
SUREFIT_INLINE void under_column(PixelSums<H * R, P>& sums, const PixelsInRow<R>& samples,
                                 const InputRows<H>& x, int column, int width,
                                 const float* weights) {
  if (column < 0 || column >= width) return;
  typename PixelsInRow<R>::Tap pixel[H];
  unroll<End - Begin>([&](auto h) SUREFIT_LAMBDA {
    pixel[Begin + h] = samples.at(x.row[Begin + h] + std::ptrdiff_t(column) * 8);
  });
  for (int i = 0; i < 8; ++i) {
    sums.template multiply_add<First, Last, Begin * R, End * R>(
        weights + i * 8, -64, [&](auto r) SUREFIT_LAMBDA { return pixel[r / R].pixel(r % R)[i]; });
  }
}

// What output rows [Begin, End) take from all columns under a kernel row. Pixels are numbered in
// the direction of the taps, which backward is to the left: pixel 0 reaches a column by tap
// `ahead`, pixel q by tap `ahead` - q.
template <int Begin, int End, int R, int H, int P>
SUREFIT_INLINE void under_row(PixelSums<H * R, P>& sums, const DirectSweep& v,
                              const PixelsInRow<R>& samples, const InputRows<H>& x, int at,
                              const float* taps) {
  const int kw = v.s.kw, width = v.in_w, step = v.back ? -v.step : v.step;
  const int first = v.back ? at + P - 1 + v.s.pad_left : at * v.step - v.s.pad_left;
  unroll<P - 1>([&](auto q) SUREFIT_LAMBDA {
    under_column<0, q.value, Begin, End>(sums, samples, x, first + q * step, width, taps + q * 64);
  });
  for (int ahead = P - 1; ahead < kw; ++ahead) {
    under_column<0, P - 1, Begin, End>(sums, samples, x, first + ahead * step, width,
                                       taps + std::ptrdiff_t(ahead) * 64);
  }
  unroll<P - 1>([&](auto q) SUREFIT_LAMBDA {
    under_column<q.value + 1, P - 1, Begin, End>(sums, samples, x, first + (kw + q) * step, width,
                                                 taps + std::ptrdiff_t(kw - 1) * 64);
  });
}

// P neighbouring pixels, from column `at` on, of H output rows from `row` on and R samples, under a
// kernel at least P wide. Every sum has the order that it has in direct_tile.
template <int R, int H, int P>
void pixels_of_rows(const DirectSweep& v, const float* src, int row, int at, const float* w,
                    const float* bias, float* dst) {
  const PixelsInRow<R> samples{v.src_stride, v.dst_stride};
  const std::ptrdiff_t plane = std::ptrdiff_t(v.in_h) * v.in_w * 8;
  const std::ptrdiff_t w_row = std::ptrdiff_t(v.s.kw) * 64;
  PixelSums<H * R, P> sums(bias);
  for (int block = 0; block < v.width; ++block, src += plane) {
    for (int kh = 0; kh < v.s.kh; ++kh, w += w_row) {
      InputRows<H> x;
      unroll<H>([&](auto h) SUREFIT_LAMBDA {
        const int in_row = row_under(v, row + h, kh);
        x.row[h] = in_row < 0 ? nullptr : src + std::ptrdiff_t(in_row) * v.in_w * 8;
      });
      if constexpr (H == 1) {
        if (x.row[0] != nullptr) under_row<0, 1>(sums, v, samples, x, at, w);
      } else {
        if (x.row[0] != nullptr && x.row[1] != nullptr) {
          under_row<0, 2>(sums, v, samples, x, at, w);
        } else if (x.row[0] != nullptr) {
          under_row<0, 1>(sums, v, samples, x, at, w);
        } else if (x.row[1] != nullptr) {
          under_row<1, 2>(sums, v, samples, x, at, w);
        }
      }
    }
  }
  unroll<P>([&](auto q) SUREFIT_LAMBDA {
    const int column = v.back ? at + P - 1 - q : at + q;
    unroll<H * R>([&](auto r) SUREFIT_LAMBDA {
      const V8 sum = sums.pixel(q, r);
      store(dst + (std::ptrdiff_t(row + r / R) * v.out_w + column) * 8 + samples.dst(r % R),
            v.rectify ? relu(sum) : sum);
    });
  });
}

// Samples of a tile of B output blocks.
template <int B>
constexpr int tile_samples() {
  if (B > 1) return kTilePixels<B>;
  return kWide ? 8 : kTilePixels<B> / 2;
}
// With one output block a tile has several pixels of every sample, and of few samples two rows of
// them: as many sums as keep the multiply-adds busy.
constexpr int tile_pixels(int samples) {
  if (kWide || samples <= 3) return 4;
  return samples == 4 ? 3 : 2;
}
constexpr int tile_rows(int samples) {
  return kWide && samples <= 4 ? 2 : 1;
}

// Rows of output block `ob`, of R samples from `first` on: P pixels at a time from column `at` on,
// as long as there are so many. Returns the first column that is left.
template <int R, int P>
int rows_of_pixels(const DirectSweep& v, int first, int ob, int row_begin, int row_end, int at) {
  if (v.s.kw < P) return at;
  const float* src = v.src + first * v.src_stride;
  const float* w = v.weights + std::ptrdiff_t(ob) * v.s.kh * v.s.kw * 64 * v.width;
  const float* bias = v.bias == nullptr ? nullptr : v.bias + ob * 8;
  float* dst = v.dst + first * v.dst_stride + std::ptrdiff_t(ob) * v.out_h * v.out_w * 8;
  constexpr int kRows = tile_rows(R);
  for (; at + P <= v.out_w; at += P) {
    int row = row_begin;
    if constexpr (kRows == 2) {
      for (; row + kRows <= row_end; row += kRows)
        pixels_of_rows<R, kRows, P>(v, src, row, at, w, bias, dst);
    }
    for (; row < row_end; ++row) pixels_of_rows<R, 1, P>(v, src, row, at, w, bias, dst);
  }
  return at;
}

// One row of B output blocks and R samples, from `first` on and of each class from column `begin`
// on.
template <int R, int B>
void row_of_samples(const DirectSweep& v, int first, int ob, int row, int begin, SweepTap* taps) {
  const std::ptrdiff_t plane = std::ptrdiff_t(v.in_h) * v.in_w * 8;
  const std::ptrdiff_t w_in = std::ptrdiff_t(v.s.kh) * v.s.kw * 64, w_out = w_in * v.width;
  const std::ptrdiff_t dst_block = std::ptrdiff_t(v.out_h) * v.out_w * 8;
  const float* src = v.src + first * v.src_stride;
  const float* bias = v.bias == nullptr ? nullptr : v.bias + ob * 8;
  float* dst = v.dst + first * v.dst_stride + ob * dst_block + std::ptrdiff_t(row) * v.out_w * 8;
  SweepTap* const pixel_taps = taps + v.s.kh * v.s.kw;
  for (int c = 0; c < at_most(v.classes, v.out_w); ++c) {
    const TapList list = taps_of(v, row, c, taps);
    for (int at = begin; at * v.classes + c < v.out_w; ++at) {
      direct_tile<R, B>(
          src + std::ptrdiff_t(at) * v.step * 8, PixelsInRow<R>{v.src_stride, v.dst_stride}, plane,
          reaching(v, list, at, pixel_taps), {0, v.width, true, true}, v.weights + ob * w_out, w_in,
          w_out, bias, dst + (at * v.classes + c) * 8, dst_block, v.rectify);
    }
  }
}

template <int B>
void rows_of_samples(const DirectSweep& v, Samples samples, int ob, int row_begin, int row_end,
                     float* scratch) {
  constexpr int kSamples = tile_samples<B>();
  const int count = samples.end - samples.begin, tiles = ceil_div(count, kSamples);
  for (int t = 0; t < tiles; ++t) {
    const int first = samples.begin + part_begin(count, tiles, t);
    const int size = samples.begin + part_begin(count, tiles, t + 1) - first;
    with_count<kSamples>(size, [&](auto r) SUREFIT_LAMBDA {
      constexpr int kR = r.value;
      int at = 0;
      if constexpr (B == 1) {
        if (shares_columns(v)) {
          at = rows_of_pixels<kR, tile_pixels(kR)>(v, first, ob, row_begin, row_end, at);
          at = rows_of_pixels<kR, 2>(v, first, ob, row_begin, row_end, at);
        }
      }
      for (int row = row_begin; at < v.out_w && row < row_end; ++row)
        row_of_samples<kR, B>(v, first, ob, row, at, reinterpret_cast<SweepTap*>(scratch));
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
                               part_begin(v.out_h, split.parts, block + 1), scratch);
    });
  }
}

}  // namespace surefit::kernels::SUREFIT_ISA
