// SPDX-License-Identifier: Apache-2.0
// Dense with many outputs (panels of 16): register tiles of 6 rows x 16 outputs, k tiles that stay
// in L1, weights read once per call.
#pragma once

#include "engine/kernels/dense.hpp"
#include "engine/kernels/unroll.hpp"
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
  for (std::int64_t u = 0; u < units; ++u)
    std::memset(park[u], 0, sizeof(park[u][0]) * static_cast<std::size_t>(rows));
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
    for (std::int64_t half = 0; half < kDensePanel; half += kBlock) {
      const std::int64_t live = a.shape.outputs - oc - half;
      if (live <= 0) break;
      const V8 bias = a.bias != nullptr ? load_some(a.bias + oc + half, live) : V8{};
      for (std::int64_t n = 0; n < rows; ++n) {
        const V8 v = load(park[u][n] + half) + bias;
        store_some(a.dst + (n0 + n) * a.dst_stride + oc + half, a.relu ? relu(v) : v, live);
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

// Backward-data has samples in its lanes: dx[k][lane] += w[k][j] * dy[j][lane]. So weights are read
// as they lie, and only dx and dy change places.
//
// R consecutive k and V vectors of samples; `first` starts at zero.
template <int R, int V>
SUREFIT_INLINE void lanes_tile(const float* w, const float* dy, float* dx, bool first) {
  V8 acc[R][V];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) acc[r][v] = first ? V8{} : load(dx + (r * V + v) * kBlock);
  for (int j = 0; j < kDensePanel; ++j) {
    V8 d[V];
    for (int v = 0; v < V; ++v) d[v] = hold(load(dy + (j * V + v) * kBlock));
    for (int r = 0; r < R; ++r) {
      const V8 weight = splat(w[r * kDensePanel + j]);
      for (int v = 0; v < V; ++v) acc[r][v] = madd(weight, d[v], acc[r][v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) store(dx + (r * V + v) * kBlock, acc[r][v]);
}

// A strip of k: each panel gives 16 KiB in one piece, and dx stays in cache over all panels.
inline constexpr std::int64_t kLanesStrip = 256;

// dy of a panel, outputs from `oc` on, with samples [n0, n0 + rows) in the lanes of V vectors.
template <int V>
SUREFIT_INLINE void lanes_of_outputs(const DenseBackwardDataArgs& a, std::int64_t n0,
                                     std::int64_t rows, std::int64_t oc, float (*dy)[V * kBlock]) {
  V8 turned[kBlock];
  for (int v = 0; v < V; ++v)
    for (int half = 0; half < kDensePanel; half += kBlock) {
      const float* from = a.diff_dst + (n0 + v * kBlock) * a.diff_dst_stride + oc + half;
      const std::int64_t live = a.shape.outputs - oc - half;
      for (int i = 0; i < kBlock; ++i) {
        const bool outside = v * kBlock + i >= rows || live <= 0;
        turned[i] = outside ? V8{} : load_some(from + i * a.diff_dst_stride, live);
      }
      transpose(turned);
      for (int i = 0; i < kBlock; ++i) store(dy[half + i] + v * kBlock, turned[i]);
    }
}

// `count` inputs from k on, as they lie in diff_src.
template <int V>
SUREFIT_INLINE void store_lanes_of_inputs(const DenseBackwardDataArgs& a, std::int64_t n0,
                                          std::int64_t rows, std::int64_t k, std::int64_t count,
                                          const float (*dx)[V * kBlock]) {
  V8 turned[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock)
    for (int v = 0; v < V; ++v) {
      for (int i = 0; i < kBlock; ++i)
        turned[i] = begin + i < count ? load(dx[begin + i] + v * kBlock) : V8{};
      transpose(turned);
      float* to = a.diff_src + (n0 + v * kBlock) * a.diff_src_stride + k + begin;
      for (int i = 0; i < kBlock && v * kBlock + i < rows; ++i)
        store_some(to + i * a.diff_src_stride, turned[i], count - begin);
    }
}

// k [strip, strip + count) of samples [n0, n0 + rows), which V vectors have room for.
template <int V>
void lanes_strip(const DenseBackwardDataArgs& a, std::int64_t n0, std::int64_t rows,
                 std::int64_t strip, std::int64_t count) {
  constexpr int kRows = 12 / V, kLanes = V * kBlock;
  alignas(64) float dx[kLanesStrip][kLanes], dy[kDensePanel][kLanes];
  const std::int64_t units = dense_units(a.shape);
  for (std::int64_t unit = 0; unit < units; ++unit) {
    lanes_of_outputs<V>(a, n0, rows, unit * kDensePanel, dy);
    const float* w = a.weights + (unit * a.shape.inputs + strip) * kDensePanel;
    const float* next = unit + 1 < units ? w + a.shape.inputs * kDensePanel : w;
    for (std::int64_t k = 0; k < count; k += kRows) {
      for (int r = 0; r < kRows; ++r) prefetch(next + (k + r) * kDensePanel);
      const int here = static_cast<int>(count - k < kRows ? count - k : kRows);
      with_count<kRows>(here, [&](auto r) SUREFIT_LAMBDA {
        lanes_tile<r.value, V>(w + k * kDensePanel, dy[0], dx[k], unit == 0);
      });
    }
  }
  store_lanes_of_inputs<V>(a, n0, rows, strip, count, dx);
}

inline void panel_backward_data(const DenseBackwardDataArgs& a) {
  for (std::int64_t strip = a.k_begin; strip < a.k_end; strip += kLanesStrip) {
    const std::int64_t count = a.k_end - strip < kLanesStrip ? a.k_end - strip : kLanesStrip;
    for (std::int64_t n = a.sample_begin; n < a.sample_end; n += 2 * kBlock) {
      const std::int64_t rows = a.sample_end - n < 2 * kBlock ? a.sample_end - n : 2 * kBlock;
      if (rows > kBlock) {
        lanes_strip<2>(a, n, rows, strip, count);
      } else {
        lanes_strip<1>(a, n, rows, strip, count);
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

// dy of a panel with `live` outputs, zeros behind them.
SUREFIT_INLINE void panel_of_outputs(const float* from, std::int64_t stride, std::int64_t rows,
                                     std::int64_t live, float (*dy)[kDensePanel]) {
  for (std::int64_t n = 0; n < rows; ++n, from += stride) {
    store(dy[n], load_some(from, live));
    store(dy[n] + kBlock, live > kBlock ? load_some(from + kBlock, live - kBlock) : V8{});
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
      panel_of_outputs(a.diff_dst + n0 * a.diff_dst_stride + oc, a.diff_dst_stride, rows, live, dy);
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
