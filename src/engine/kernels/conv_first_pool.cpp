// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/conv_first_pool.hpp"

#include <cstring>

#include "engine/kernels/stage_rows.hpp"
#include "engine/kernels/table.hpp"
#include "engine/kernels/unroll.hpp"

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace surefit::kernels::SUREFIT_ISA {

namespace {

using V4 = float __attribute__((vector_size(16)));

SUREFIT_INLINE V4 load4(const float* p) {
  V4 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
SUREFIT_INLINE void store4(float* p, V4 v) {
  std::memcpy(p, &v, sizeof v);
}

// Lane l of the result is quad[index[l] % 4].
SUREFIT_INLINE V8 pick(const float* quad, I8 index) {
#ifdef __AVX__
  return _mm256_permutevar_ps(_mm256_broadcast_ps(reinterpret_cast<const __m128*>(quad)),
                              reinterpret_cast<__m256i>(index));
#else
  return index == 1   ? splat(quad[1])
         : index == 2 ? splat(quad[2])
         : index == 3 ? splat(quad[3])
                      : splat(quad[0]);
#endif
}

// P neighbouring pooled pixels of B channel blocks: their convolution pixels side by side in
// registers. Run is the floats per kernel row where that is common enough to unroll, else 0;
// unrolling all rows as well was
// slower (seed224: 65 against 78 GFLOP/s).
template <int P, int B, int Run>
SUREFIT_INLINE void forward_pixels(const float* x, int pixel, std::ptrdiff_t row, int kh, int run,
                                   const float* w, std::ptrdiff_t w_block, const V8 (&start)[B],
                                   float* dst, std::uint8_t* argmax, std::ptrdiff_t dst_block) {
  V8 acc[P][4][B];
  unroll<P>([&](auto p) SUREFIT_LAMBDA {
    unroll<4>([&](auto r) SUREFIT_LAMBDA {
      unroll<B>([&](auto b) SUREFIT_LAMBDA { acc[p][r][b] = start[b]; });
    });
  });
  const auto tap = [&](const float* xp, const float* wp) SUREFIT_LAMBDA {
    V8 wv[B];
    unroll<B>([&](auto b) SUREFIT_LAMBDA { wv[b] = hold(load(wp + b * w_block)); });
    unroll<P>([&](auto p) SUREFIT_LAMBDA {
      const float* at = xp + 2 * p * pixel;
      const V8 xv[4] = {splat(at[0]), splat(at[pixel]), splat(at[row]), splat(at[row + pixel])};
      unroll<4>([&](auto r) SUREFIT_LAMBDA {
        unroll<B>([&](auto b) SUREFIT_LAMBDA { acc[p][r][b] += xv[r] * wv[b]; });
      });
    });
  };
  for (int i = 0; i < kh; ++i, x += row) {
    if constexpr (Run > 0) {
      unroll<Run>([&](auto k) SUREFIT_LAMBDA { tap(x + k, w + k * 8); });
      w += Run * 8;
    } else {
      for (int k = 0; k < run; ++k, w += 8) tap(x + k, w);
    }
  }
  unroll<P>([&](auto p) SUREFIT_LAMBDA {
    unroll<B>([&](auto b) SUREFIT_LAMBDA {
      V8 best = acc[p][0][b];
      I8 index{};
      unroll<3>([&](auto i) SUREFIT_LAMBDA {
        constexpr int kCandidate = i.value + 1;
        const I8 higher = acc[p][kCandidate][b] > best;
        best = higher ? acc[p][kCandidate][b] : best;
        index = higher ? I8{} + kCandidate : index;
      });
      const I8 dead = best <= V8{};
      store(dst + b * dst_block + p * 8, dead ? V8{} : best);
      store_bytes(argmax + b * dst_block + p * 8, dead ? I8{} + kReluDead : index);
    });
  });
}

template <int B, int Run>
void forward_rows(const FirstPoolForward& a, const float* staged, int row_begin, int row_end,
                  int ob, float* dst, std::uint8_t* argmax) {
  const ConvShape& s = a.shape;
  const std::ptrdiff_t staged_row = first_staged_row(s);
  const int run = s.kw * s.ic;
  const std::ptrdiff_t w_block = std::ptrdiff_t(s.kh) * run * 8;
  const int ph = s.oh / 2, pw = s.ow / 2;
  const std::ptrdiff_t dst_block = std::ptrdiff_t(ph) * pw * 8;
  constexpr int kAtOnce = 2 / B;  // eight chains of sums hide the latency of an FMA
  V8 start[B];
  unroll<B>([&](auto b) SUREFIT_LAMBDA { start[b] = load(a.bias + (ob + b) * 8); });
  for (int row = row_begin; row < row_end; ++row) {
    const float* x = staged + 2 * (row - row_begin) * staged_row;
    const std::ptrdiff_t at = ob * dst_block + std::ptrdiff_t(row) * pw * 8;
    int j = 0;
    for (; j + kAtOnce <= pw; j += kAtOnce) {
      forward_pixels<kAtOnce, B, Run>(x + 2 * j * s.ic, s.ic, staged_row, s.kh, run,
                                      a.weights + ob * w_block, w_block, start, dst + at + j * 8,
                                      argmax + at + j * 8, dst_block);
    }
    for (; j < pw; ++j) {
      forward_pixels<1, B, Run>(x + 2 * j * s.ic, s.ic, staged_row, s.kh, run,
                                a.weights + ob * w_block, w_block, start, dst + at + j * 8,
                                argmax + at + j * 8, dst_block);
    }
  }
}

template <int Run>
void forward_with(const FirstPoolForward& a, Samples samples, int block, float* scratch) {
  const ConvShape& s = a.shape;
  const int blocks = first_pool_forward_blocks(s);
  const int row_begin = part_begin(s.oh / 2, blocks, block);
  const int row_end = part_begin(s.oh / 2, blocks, block + 1);
  const int obs = channel_blocks(s.oc);
  if (row_begin == row_end) return;
  for (int n = samples.begin; n < samples.end; ++n) {
    stage_rows(s, a.src + n * a.src_stride, 2 * row_begin - s.pad_top,
               first_staged_rows(s, 2 * (row_end - row_begin)), first_staged_row(s), scratch);
    float* dst = a.dst + n * a.dst_stride;
    std::uint8_t* argmax = a.argmax + n * a.dst_stride;
    int ob = 0;
    for (; ob + 2 <= obs; ob += 2) {
      forward_rows<2, Run>(a, scratch, row_begin, row_end, ob, dst, argmax);
    }
    if (ob < obs) forward_rows<1, Run>(a, scratch, row_begin, row_end, ob, dst, argmax);
  }
}

void forward(const FirstPoolForward& a, Samples samples, int block, float* scratch) {
  const int run = a.shape.kw * a.shape.ic;
  if (run == 3) {
    forward_with<3>(a, samples, block, scratch);
  } else if (run == 5) {
    forward_with<5>(a, samples, block, scratch);
  } else if (run == 9) {
    forward_with<9>(a, samples, block, scratch);
  } else {
    forward_with<0>(a, samples, block, scratch);
  }
}

// quads[f] = the 2x2 window whose upper left corner is float f of `upper`.
void build_quads(const float* upper, const float* lower, int ic, int count, float* quads) {
  for (int f = 0; f < count; f += 4) {
    const V4 a0 = load4(upper + f), a1 = load4(upper + f + ic);
    const V4 b0 = load4(lower + f), b1 = load4(lower + f + ic);
    const V4 a_low = __builtin_shufflevector(a0, a1, 0, 4, 1, 5);
    const V4 a_high = __builtin_shufflevector(a0, a1, 2, 6, 3, 7);
    const V4 b_low = __builtin_shufflevector(b0, b1, 0, 4, 1, 5);
    const V4 b_high = __builtin_shufflevector(b0, b1, 2, 6, 3, 7);
    store4(quads + f * 4, __builtin_shufflevector(a_low, b_low, 0, 1, 4, 5));
    store4(quads + f * 4 + 4, __builtin_shufflevector(a_low, b_low, 2, 3, 6, 7));
    store4(quads + f * 4 + 8, __builtin_shufflevector(a_high, b_high, 0, 1, 4, 5));
    store4(quads + f * 4 + 12, __builtin_shufflevector(a_high, b_high, 2, 3, 6, 7));
  }
}

constexpr int kTaps = 9;

struct PooledRows {
  const float* diff;
  const std::uint8_t* argmax;
  int rows, width;
  int ic;
  std::ptrdiff_t quad_row;  // floats
};

// T taps of one channel block over a chunk of pooled rows. Only the winner of each window has a
// gradient, so one permute fetches its input per channel and one FMA does the work of four.
template <int T, bool WithBias>
SUREFIT_INLINE void weights_tile(const float* const* tap, const PooledRows& in, float* dw,
                                 float* db) {
  V8 acc[T];
  V8 sum{};
  const float* q[T];
  unroll<T>([&](auto t) SUREFIT_LAMBDA {
    acc[t] = V8{};
    q[t] = tap[t];
  });
  const float* g = in.diff;
  const std::uint8_t* index = in.argmax;
  const std::ptrdiff_t step = std::ptrdiff_t(8) * in.ic;
  for (int row = 0; row < in.rows; ++row) {
    for (int j = 0; j < in.width; ++j, g += 8, index += 8) {
      const I8 winner = load_bytes(index);
      const V8 gv = winner == kReluDead ? V8{} : load(g);
      if constexpr (WithBias) sum += gv;
      unroll<T>([&](auto t) SUREFIT_LAMBDA { acc[t] += gv * pick(q[t] + j * step, winner); });
    }
    unroll<T>([&](auto t) SUREFIT_LAMBDA { q[t] += 2 * in.quad_row; });
  }
  unroll<T>([&](auto t) SUREFIT_LAMBDA { store(dw + t * 8, load(dw + t * 8) + acc[t]); });
  if constexpr (WithBias) store(db, load(db) + sum);
}

void weights_chunk(const ConvShape& s, const float* quads, const PooledRows& in, float* dw,
                   float* db) {
  const int run = s.kw * s.ic, taps = s.kh * run;
  for (int begin = 0; begin < taps; begin += kTaps) {
    const int count = at_most(taps - begin, kTaps);
    const float* tap[kTaps];
    for (int t = 0; t < count; ++t) {
      tap[t] = quads + (begin + t) / run * in.quad_row + (begin + t) % run * 4;
    }
    with_count<kTaps>(count, [&](auto t) SUREFIT_LAMBDA {
      if (begin == 0) {
        weights_tile<t.value, true>(tap, in, dw, db);
      } else {
        weights_tile<t.value, false>(tap, in, dw + begin * 8, nullptr);
      }
    });
  }
}

void backward_weights(const FirstPoolBackwardWeights& a, Samples samples, float* scratch) {
  const ConvShape& s = a.shape;
  const int ph = s.oh / 2, pw = s.ow / 2;
  const std::ptrdiff_t dw_block = std::ptrdiff_t(s.kh) * s.kw * s.ic * 8;
  const std::ptrdiff_t dy_block = std::ptrdiff_t(ph) * pw * 8;
  const int count = first_pool_quads(s), staged_row = first_pool_staged_row(s);
  const std::ptrdiff_t quad_row = std::ptrdiff_t(4) * count;
  const int chunk = first_pool_backward_rows(s);
  float* quads = scratch;
  float* staged[2];
  staged[0] = quads + first_pool_quad_rows(s) * quad_row;
  staged[1] = staged[0] + staged_row;
  for (int n = samples.begin; n < samples.end; ++n) {
    float* dw = a.gradient + n * a.gradient_stride;
    float* db = dw + first_weights_floats(s);
    std::memset(dw, 0, sizeof(float) * first_pool_gradient_floats(s));
    const float* picture = a.src + n * a.src_stride;
    const auto stage = [&](int row) {
      stage_row(s, picture, row - s.pad_top, staged_row, staged[row % 2]);
    };
    stage(0);
    for (int p = 0; p < ph; p += chunk) {
      const int rows = at_most(ph - p, chunk);
      // The first kh - 2 rows of quads are the last ones of the chunk before.
      int built = 0;
      if (p > 0 && s.kh > 2) {
        built = s.kh - 2;
        std::memmove(quads, quads + 2 * chunk * quad_row,
                     sizeof(float) * std::size_t(built) * std::size_t(quad_row));
      }
      if (p > 0 && s.kh < 2) stage(2 * p);
      for (; built < 2 * (rows - 1) + s.kh; ++built) {
        const int row = 2 * p + built;
        stage(row + 1);
        build_quads(staged[row % 2], staged[(row + 1) % 2], s.ic, count, quads + built * quad_row);
      }
      for (int ob = 0; ob < channel_blocks(s.oc); ++ob) {
        const std::ptrdiff_t at =
            n * a.diff_dst_stride + ob * dy_block + std::ptrdiff_t(p) * pw * 8;
        const PooledRows in{a.diff_dst + at, a.argmax + at, rows, pw, s.ic, quad_row};
        weights_chunk(s, quads, in, dw + ob * dw_block, db + ob * 8);
      }
    }
  }
}

}  // namespace

void fill_first_pool(KernelTable& table) {
  table.first_pool = {forward, backward_weights};
}

}  // namespace surefit::kernels::SUREFIT_ISA
