// SPDX-License-Identifier: Apache-2.0
// Dense with few outputs (row layout): vectors along k, so ten outputs cost ten outputs and not
// sixteen. Register tiles of 12 accumulators or fewer; k tiles keep the weights of all rows in L1
// (16 x 384 floats = 24 KiB).
//
// Eight k of all outputs lie together, so a range of k is one stretch of memory: the gradient, the
// update and backward-data cut the weights alike, and each thread finds its part in its own cache.
#pragma once

#include "engine/kernels/dense.hpp"
#include "engine/kernels/vec_math.hpp"

namespace surefit::kernels::SUREFIT_ISA {

inline constexpr std::int64_t kRowsTile = 384;  // floats of k
inline constexpr std::int64_t kRowsChunk =
    16;                               // samples whose accumulators are parked between k tiles
inline constexpr int kRowsGroup = 6;  // outputs in registers at once

// Floats from eight k of an output to the next eight.
SUREFIT_INLINE std::int64_t rows_step(DenseShape s) {
  return s.outputs * kBlock;
}
// Where weight (k, oc) is in the packed array.
SUREFIT_INLINE std::int64_t rows_index(DenseShape s, std::int64_t k, std::int64_t oc) {
  return k / kBlock * rows_step(s) + oc * kBlock + k % kBlock;
}

// Calls f(begin, integral_constant<size>) over outputs cut into nearly equal groups of at most 6.
template <class F>
SUREFIT_INLINE void for_groups(std::int64_t count, F f) {
  const std::int64_t groups = (count + kRowsGroup - 1) / kRowsGroup;
  std::int64_t begin = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t end = count * (g + 1) / groups;
    switch (end - begin) {
      case 1:
        f(begin, Size<1>{});
        break;
      case 2:
        f(begin, Size<2>{});
        break;
      case 3:
        f(begin, Size<3>{});
        break;
      case 4:
        f(begin, Size<4>{});
        break;
      case 5:
        f(begin, Size<5>{});
        break;
      default:
        f(begin, Size<6>{});
        break;
    }
    begin = end;
  }
}

// acc[s][g] += x[s][k] * w[g][k] over `count` floats; the last, partial vector of x is read lane by
// lane.
template <int S, int G>
SUREFIT_INLINE void rows_dot(const float* x, std::int64_t x_stride, const float* w,
                             std::int64_t w_step, std::int64_t count, V8 (*park)[kDenseRowsMax]) {
  V8 acc[S][G];
  for (int s = 0; s < S; ++s)
    for (int g = 0; g < G; ++g) acc[s][g] = park[s][g];
  std::int64_t k = 0;
  for (; k + kBlock <= count; k += kBlock, w += w_step) {
    V8 v[S];
    for (int s = 0; s < S; ++s) v[s] = hold(load(x + s * x_stride + k));
    for (int g = 0; g < G; ++g) {
      const V8 weight = hold(load(w + g * kBlock));
      for (int s = 0; s < S; ++s) acc[s][g] = madd(v[s], weight, acc[s][g]);
    }
  }
  if (k < count) {
    for (int s = 0; s < S; ++s) {
      const V8 v = load_lanes(x + s * x_stride + k, count - k);
      for (int g = 0; g < G; ++g) acc[s][g] = madd(v, load(w + g * kBlock), acc[s][g]);
    }
  }
  for (int s = 0; s < S; ++s)
    for (int g = 0; g < G; ++g) park[s][g] = acc[s][g];
}

inline void rows_forward(const DenseForwardArgs& a) {
  const std::int64_t outputs = a.shape.outputs, step = rows_step(a.shape);
  V8 park[kRowsChunk][kDenseRowsMax];
  for (std::int64_t n0 = a.sample_begin; n0 < a.sample_end; n0 += kRowsChunk) {
    const std::int64_t rows = a.sample_end - n0 < kRowsChunk ? a.sample_end - n0 : kRowsChunk;
    for (std::int64_t n = 0; n < rows; ++n)
      for (std::int64_t oc = 0; oc < outputs; ++oc) park[n][oc] = V8{};
    for (std::int64_t k = 0; k < a.shape.inputs; k += kRowsTile) {
      const std::int64_t count = a.shape.inputs - k < kRowsTile ? a.shape.inputs - k : kRowsTile;
      const float* x = a.src + n0 * a.src_stride + k;
      for (std::int64_t n = 0; n < rows; n += 2) {
        for_groups(outputs, [&](std::int64_t oc, auto size) {
          V8(*tile)[kDenseRowsMax] = reinterpret_cast<V8(*)[kDenseRowsMax]>(&park[n][oc]);
          const float* row = x + n * a.src_stride;
          const float* w = a.weights + rows_index(a.shape, k, oc);
          if (n + 1 < rows) {
            rows_dot<2, size.value>(row, a.src_stride, w, step, count, tile);
          } else {
            rows_dot<1, size.value>(row, a.src_stride, w, step, count, tile);
          }
        });
      }
    }
    for (std::int64_t n = 0; n < rows; ++n) {
      float* y = a.dst + (n0 + n) * a.dst_stride;
      for (std::int64_t oc = 0; oc < outputs; ++oc) {
        float v = sum_lanes(park[n][oc]) + (a.bias != nullptr ? a.bias[oc] : 0.0f);
        y[oc] = a.relu && v <= 0.0f ? 0.0f : v;
      }
    }
  }
}

// dx[s][k] = sum_oc dy[s][oc] * w[oc][k] for S samples and KV vectors of k.
template <int S, int KV>
SUREFIT_INLINE void rows_data_tile(const DenseBackwardDataArgs& a, std::int64_t n, std::int64_t k,
                                   std::int64_t last_lanes) {
  const std::int64_t step = rows_step(a.shape);
  const float* w = a.weights + rows_index(a.shape, k, 0);
  const float* dy = a.diff_dst + n * a.diff_dst_stride;
  V8 acc[S][KV] = {};
  for (std::int64_t oc = 0; oc < a.shape.outputs; ++oc, w += kBlock) {
    V8 d[S];
    for (int s = 0; s < S; ++s) d[s] = hold(splat(dy[s * a.diff_dst_stride + oc]));
    for (int v = 0; v < KV; ++v) {
      const V8 weight = hold(load(w + v * step));
      for (int s = 0; s < S; ++s) acc[s][v] = madd(d[s], weight, acc[s][v]);
    }
  }
  for (int s = 0; s < S; ++s) {
    float* dx = a.diff_src + (n + s) * a.diff_src_stride + k;
    for (int v = 0; v + 1 < KV; ++v) store(dx + v * kBlock, acc[s][v]);
    if (last_lanes == kBlock) {
      store(dx + (KV - 1) * kBlock, acc[s][KV - 1]);
    } else {
      store_lanes(dx + (KV - 1) * kBlock, acc[s][KV - 1], last_lanes);
    }
  }
}

template <int S>
SUREFIT_INLINE void rows_data_strip(const DenseBackwardDataArgs& a, std::int64_t n,
                                    std::int64_t begin, std::int64_t end) {
  std::int64_t k = begin;
  for (; k + 4 * kBlock <= end; k += 4 * kBlock) rows_data_tile<S, 4>(a, n, k, kBlock);
  for (; k < end; k += kBlock) rows_data_tile<S, 1>(a, n, k, end - k < kBlock ? end - k : kBlock);
}

inline void rows_backward_data(const DenseBackwardDataArgs& a) {
  for (std::int64_t k = a.k_begin; k < a.k_end; k += kRowsTile) {
    const std::int64_t end = k + kRowsTile < a.k_end ? k + kRowsTile : a.k_end;
    for (std::int64_t n = a.sample_begin; n < a.sample_end;) {
      const std::int64_t left = a.sample_end - n;
      if (left == 1) {
        rows_data_strip<1>(a, n, k, end);
        n += 1;
      } else if (left == 2 || left == 4) {
        rows_data_strip<2>(a, n, k, end);
        n += 2;
      } else {
        rows_data_strip<3>(a, n, k, end);
        n += 3;
      }
    }
  }
}

// dw[g][k] += dy[n][g] * x[n][k], n increasing, for G outputs and KV vectors of k. Few samples pass
// at a time, so what stands around their loop counts: one way in and one way out, and the sums
// stay in registers.
template <bool First, int G, int KV>
SUREFIT_INLINE void rows_weights_tile(const DenseBackwardWeightsArgs& a, std::int64_t oc,
                                      std::int64_t k, std::int64_t last_lanes) {
  const std::int64_t step = rows_step(a.shape);
  float* dw = a.diff_weights + rows_index(a.shape, k, oc);
  V8 acc[G][KV];
  for (int g = 0; g < G; ++g)
    for (int v = 0; v < KV; ++v) acc[g][v] = First ? V8{} : load(dw + v * step + g * kBlock);
  const float* x = a.src + a.sample_begin * a.src_stride + k;
  const float* dy = a.diff_dst + a.sample_begin * a.diff_dst_stride + oc;
  std::int64_t n = a.sample_begin;
  do {
    V8 in[KV];
    for (int v = 0; v + 1 < KV; ++v) in[v] = hold(load(x + v * kBlock));
    in[KV - 1] = last_lanes == kBlock ? load(x + (KV - 1) * kBlock)
                                      : load_lanes(x + (KV - 1) * kBlock, last_lanes);
    for (int g = 0; g < G; ++g) {
      const V8 d = hold(splat(dy[g]));
      for (int v = 0; v < KV; ++v) acc[g][v] = madd(d, in[v], acc[g][v]);
    }
    x += a.src_stride;
    dy += a.diff_dst_stride;
  } while (++n < a.sample_end);
  for (int g = 0; g < G; ++g)
    for (int v = 0; v < KV; ++v) store(dw + v * step + g * kBlock, acc[g][v]);
}

template <bool First>
void rows_weights(const DenseBackwardWeightsArgs& a) {
  // Several tiles for every group of outputs, whose choice costs a division and a jump.
  constexpr std::int64_t kTile = 8 * kBlock;
  for (std::int64_t begin = a.k_begin; begin < a.k_end; begin += kTile) {
    const std::int64_t end = begin + kTile < a.k_end ? begin + kTile : a.k_end;
    for_groups(a.shape.outputs, [&](std::int64_t oc, auto size) {
      std::int64_t k = begin;
      for (; k + 2 * kBlock <= end; k += 2 * kBlock)
        rows_weights_tile<First, size.value, 2>(a, oc, k, kBlock);
      for (; k < end; k += kBlock)
        rows_weights_tile<First, size.value, 1>(a, oc, k, end - k < kBlock ? end - k : kBlock);
    });
  }
}

inline void rows_backward_weights(const DenseBackwardWeightsArgs& a) {
  a.first ? rows_weights<true>(a) : rows_weights<false>(a);
}

}  // namespace surefit::kernels::SUREFIT_ISA
