// SPDX-License-Identifier: Apache-2.0
// Dense with many outputs (panels of 16): register tiles of 6 rows x 16 outputs, k tiles that stay
// in L1, weights read once per call.
#pragma once

#include "engine/kernels/dense.hpp"
#include "engine/kernels/vec_math.hpp"

namespace surefit::kernels::SUREFIT_ISA {

inline constexpr std::int64_t kPanelTile = 256;  // k per tile: 16 KiB of weights
inline constexpr std::int64_t kPanelChunk = 24;  // samples whose sums are parked between tiles
inline constexpr std::int64_t kPanelGroup = 4;   // panels that share a tile of x
inline constexpr std::int64_t kPanelStep = 32;   // k between two rounds of prefetching

// acc[r][16] += x[r][k] * w[k][16], k increasing. Meanwhile asks for `ahead` lines of weights from
// `next` on, evenly.
template <int R>
SUREFIT_INLINE void panel_dot(const float* x, std::int64_t x_stride, const float* w,
                              std::int64_t count, const float* next, std::int64_t ahead,
                              float (*park)[kDensePanel]) {
  V8 acc[R][2];
  for (int r = 0; r < R; ++r) {
    acc[r][0] = load(park[r]);
    acc[r][1] = load(park[r] + kBlock);
  }
  for (std::int64_t k0 = 0; k0 < count; k0 += kPanelStep) {
    const std::int64_t end = k0 + kPanelStep < count ? k0 + kPanelStep : count;
    for (std::int64_t i = 0; i < ahead; ++i, next += kDensePanel) prefetch(next);
    for (std::int64_t k = k0; k < end; ++k) {
      const V8 w0 = hold(load(w + k * kDensePanel)), w1 = hold(load(w + k * kDensePanel + kBlock));
      for (int r = 0; r < R; ++r) {
        const V8 v = hold(splat(x[r * x_stride + k]));
        acc[r][0] = madd(v, w0, acc[r][0]);
        acc[r][1] = madd(v, w1, acc[r][1]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    store(park[r], acc[r][0]);
    store(park[r] + kBlock, acc[r][1]);
  }
}

// Rows of the next register tile: six, but never a lone row left over from a larger count.
SUREFIT_INLINE std::int64_t next_rows(std::int64_t left) {
  if (left <= 6) return left;
  return left < 12 ? (left + 1) / 2 : 6;
}

template <class F>
SUREFIT_INLINE void for_rows(std::int64_t rows, F f) {
  for (std::int64_t n = 0; n < rows;) {
    const std::int64_t r = next_rows(rows - n);
    switch (r) {
      case 1:
        f(n, Size<1>{});
        break;
      case 2:
        f(n, Size<2>{});
        break;
      case 3:
        f(n, Size<3>{});
        break;
      case 4:
        f(n, Size<4>{});
        break;
      case 5:
        f(n, Size<5>{});
        break;
      default:
        f(n, Size<6>{});
        break;
    }
    n += r;
  }
}

// `units` panels over one chunk of samples: panels take turns at every k tile, so the tile of x is
// read from L1 by all.
inline void panel_forward_chunk(const DenseForwardArgs& a, std::int64_t unit0, std::int64_t units,
                                std::int64_t n0, std::int64_t rows) {
  const std::int64_t inputs = a.shape.inputs;
  alignas(64) float park[kPanelGroup][kPanelChunk][kDensePanel];
  std::memset(park, 0, sizeof park);
  for (std::int64_t k = 0; k < inputs; k += kPanelTile) {
    const std::int64_t count = inputs - k < kPanelTile ? inputs - k : kPanelTile;
    const float* x = a.src + n0 * a.src_stride + k;
    for (std::int64_t u = 0; u < units; ++u) {
      const float* weights = a.weights + ((unit0 + u) * inputs + k) * kDensePanel;
      // The tile that follows this one in memory order of use; every row tile asks for its share of
      // it.
      const float* next = u + 1 < units
                              ? weights + inputs * kDensePanel
                              : weights + (kPanelTile - (units - 1) * inputs) * kDensePanel;
      for_rows(rows, [&](std::int64_t n, auto size) {
        const std::int64_t begin = kPanelStep * n / rows,
                           end = kPanelStep * (n + size.value) / rows;
        const std::int64_t steps = (count + kPanelStep - 1) / kPanelStep;
        panel_dot<size.value>(x + n * a.src_stride, a.src_stride, weights, count,
                              next + begin * steps * kDensePanel, end - begin, park[u] + n);
      });
    }
  }
  for (std::int64_t u = 0; u < units; ++u) {
    const std::int64_t oc = (unit0 + u) * kDensePanel;
    const std::int64_t live =
        a.shape.outputs - oc < kDensePanel ? a.shape.outputs - oc : kDensePanel;
    for (std::int64_t n = 0; n < rows; ++n) {
      float* y = a.dst + (n0 + n) * a.dst_stride + oc;
      for (std::int64_t j = 0; j < live; ++j) {
        const float v = park[u][n][j] + (a.bias != nullptr ? a.bias[oc + j] : 0.0f);
        y[j] = a.relu && v <= 0.0f ? 0.0f : v;
      }
    }
  }
}

inline void panel_forward(const DenseForwardArgs& a) {
  for (std::int64_t unit = a.unit_begin; unit < a.unit_end; unit += kPanelGroup) {
    const std::int64_t units = a.unit_end - unit < kPanelGroup ? a.unit_end - unit : kPanelGroup;
    for (std::int64_t n = a.sample_begin; n < a.sample_end; n += kPanelChunk) {
      const std::int64_t left = a.sample_end - n;
      panel_forward_chunk(a, unit, units, n, left < kPanelChunk ? left : kPanelChunk);
    }
  }
}

// Weights [k][16] of 64 k turned into [16][64], so that dx accumulates whole vectors of k without
// horizontal sums.
inline constexpr std::int64_t kTurned = 64;

SUREFIT_INLINE void turn_panel(const float* w, std::int64_t count, const float* next,
                               float (*turned)[kTurned]) {
  for (std::int64_t k = 0; k < count; k += kBlock) {
    for (int i = 0; i < kBlock; ++i) prefetch(next + (k + i) * kDensePanel);
    for (int half = 0; half < 2; ++half) {
      V8 r[8];
      for (int i = 0; i < 8; ++i) {
        r[i] = k + i < count ? load(w + (k + i) * kDensePanel + half * kBlock) : V8{};
      }
      transpose(r);
      for (int j = 0; j < 8; ++j) store(turned[half * kBlock + j] + k, r[j]);
    }
  }
}

// dx[s][k] += sum_j dy[s][j] * turned[j][k] for S samples and KV vectors of k; `first` starts at
// zero.
template <int S, int KV>
SUREFIT_INLINE void turned_tile(const float* dy, std::int64_t dy_stride, std::int64_t live,
                                const float* turned, float* dx, std::int64_t dx_stride,
                                std::int64_t last_lanes, bool first) {
  V8 acc[S][KV] = {};
  if (!first) {
    for (int s = 0; s < S; ++s)
      for (int v = 0; v < KV; ++v) {
        const float* p = dx + s * dx_stride + v * kBlock;
        acc[s][v] = v + 1 < KV || last_lanes == kBlock ? load(p) : load_lanes(p, last_lanes);
      }
  }
  for (std::int64_t j = 0; j < live; ++j) {
    V8 d[S];
    for (int s = 0; s < S; ++s) d[s] = hold(splat(dy[s * dy_stride + j]));
    for (int v = 0; v < KV; ++v) {
      const V8 w = hold(load(turned + j * kTurned + v * kBlock));
      for (int s = 0; s < S; ++s) acc[s][v] = madd(d[s], w, acc[s][v]);
    }
  }
  for (int s = 0; s < S; ++s)
    for (int v = 0; v < KV; ++v) {
      float* p = dx + s * dx_stride + v * kBlock;
      if (v + 1 < KV || last_lanes == kBlock) {
        store(p, acc[s][v]);
      } else {
        store_lanes(p, acc[s][v], last_lanes);
      }
    }
}

template <int S>
SUREFIT_INLINE void turned_strip(const DenseBackwardDataArgs& a, std::int64_t n, std::int64_t oc,
                                 std::int64_t live, std::int64_t k, std::int64_t count,
                                 const float* turned) {
  const float* dy = a.diff_dst + n * a.diff_dst_stride + oc;
  float* dx = a.diff_src + n * a.diff_src_stride + k;
  std::int64_t i = 0;
  for (; i + 4 * kBlock <= count; i += 4 * kBlock) {
    turned_tile<S, 4>(dy, a.diff_dst_stride, live, turned + i, dx + i, a.diff_src_stride, kBlock,
                      oc == 0);
  }
  for (; i < count; i += kBlock) {
    const std::int64_t lanes = count - i < kBlock ? count - i : kBlock;
    turned_tile<S, 1>(dy, a.diff_dst_stride, live, turned + i, dx + i, a.diff_src_stride, lanes,
                      oc == 0);
  }
}

inline void panel_backward_data(const DenseBackwardDataArgs& a) {
  // A strip of 512 k: each panel gives 32 KiB in one piece, and dx of a few samples stays in cache
  // over all panels.
  constexpr std::int64_t kStrip = 512;
  alignas(64) float turned[kDensePanel][kTurned];
  const std::int64_t units = dense_units(a.shape);
  for (std::int64_t strip = a.k_begin; strip < a.k_end; strip += kStrip) {
    const std::int64_t strip_end = strip + kStrip < a.k_end ? strip + kStrip : a.k_end;
    for (std::int64_t unit = 0; unit < units; ++unit) {
      const std::int64_t oc = unit * kDensePanel;
      const std::int64_t live =
          a.shape.outputs - oc < kDensePanel ? a.shape.outputs - oc : kDensePanel;
      for (std::int64_t k = strip; k < strip_end; k += kTurned) {
        const std::int64_t count = strip_end - k < kTurned ? strip_end - k : kTurned;
        const float* w = a.weights + (unit * a.shape.inputs + k) * kDensePanel;
        const float* next = k + kTurned < strip_end
                                ? w + kTurned * kDensePanel
                                : w + (a.shape.inputs + strip - k) * kDensePanel;
        turn_panel(w, count, next, turned);
        std::int64_t n = a.sample_begin;
        for (; n + 3 <= a.sample_end; n += 3) turned_strip<3>(a, n, oc, live, k, count, turned[0]);
        if (n + 2 == a.sample_end) {
          turned_strip<2>(a, n, oc, live, k, count, turned[0]);
        } else if (n < a.sample_end) {
          turned_strip<1>(a, n, oc, live, k, count, turned[0]);
        }
      }
    }
  }
}

// dw[k][16] of R consecutive k, samples increasing.
template <int R>
SUREFIT_INLINE void panel_weights_tile(const float* x, std::int64_t x_stride, const float* dy,
                                       std::int64_t rows, float* dw, bool first, bool streaming) {
  V8 acc[R][2];
  for (int r = 0; r < R; ++r) {
    acc[r][0] = first ? V8{} : load(dw + r * kDensePanel);
    acc[r][1] = first ? V8{} : load(dw + r * kDensePanel + kBlock);
  }
  for (std::int64_t n = 0; n < rows; ++n) {
    const V8 d0 = hold(load(dy + n * kDensePanel)), d1 = hold(load(dy + n * kDensePanel + kBlock));
    for (int r = 0; r < R; ++r) {
      const V8 v = hold(splat(x[n * x_stride + r]));
      acc[r][0] = madd(v, d0, acc[r][0]);
      acc[r][1] = madd(v, d1, acc[r][1]);
    }
  }
  for (int r = 0; r < R; ++r) {
    if (streaming) {
      store_stream(dw + r * kDensePanel, acc[r][0]);
      store_stream(dw + r * kDensePanel + kBlock, acc[r][1]);
    } else {
      store(dw + r * kDensePanel, acc[r][0]);
      store(dw + r * kDensePanel + kBlock, acc[r][1]);
    }
  }
}

inline void panel_backward_weights(const DenseBackwardWeightsArgs& a) {
  constexpr std::int64_t kChunk = 64;
  alignas(64) float dy[kChunk][kDensePanel];
  // A gradient far larger than the caches is written past them: no read for ownership.
  const bool large = !a.read_soon && dense_weight_count(a.shape) >= (std::int64_t{1} << 22) &&
                     reinterpret_cast<std::uintptr_t>(a.diff_weights) % 32 == 0;
  for (std::int64_t unit = a.unit_begin; unit < a.unit_end; ++unit) {
    const std::int64_t oc = unit * kDensePanel;
    const std::int64_t live =
        a.shape.outputs - oc < kDensePanel ? a.shape.outputs - oc : kDensePanel;
    for (std::int64_t n0 = a.sample_begin; n0 < a.sample_end || n0 == a.sample_begin;
         n0 += kChunk) {
      const std::int64_t rows = a.sample_end - n0 < kChunk ? a.sample_end - n0 : kChunk;
      for (std::int64_t n = 0; n < rows; ++n)
        for (std::int64_t j = 0; j < kDensePanel; ++j)
          dy[n][j] = j < live ? a.diff_dst[(n0 + n) * a.diff_dst_stride + oc + j] : 0.0f;
      const bool first = a.first && n0 == a.sample_begin;
      const bool streaming = large && first && n0 + kChunk >= a.sample_end;
      for_rows(a.k_end - a.k_begin, [&](std::int64_t i, auto size) {
        const std::int64_t k = a.k_begin + i;
        panel_weights_tile<size.value>(a.src + n0 * a.src_stride + k, a.src_stride, dy[0], rows,
                                       a.diff_weights + (unit * a.shape.inputs + k) * kDensePanel,
                                       first, streaming);
      });
    }
  }
  if (large) stream_fence();
}

}  // namespace surefit::kernels::SUREFIT_ISA
