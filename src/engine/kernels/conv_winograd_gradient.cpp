// SPDX-License-Identifier: Apache-2.0
// The weight gradient, carried in the transformed domain until all samples are in.

#include "engine/kernels/table.hpp"
#include "engine/kernels/vec16.hpp"
#include "engine/kernels/winograd_ahead.hpp"
#include "engine/kernels/winograd_transforms.hpp"

namespace surefit::kernels::SUREFIT_ISA {

namespace {

// Input channels side by side per tile: whole micro-tiles and cache lines.
constexpr int kPanel = 48;

struct TileRun {
  WinogradTile tiles[kWinogradMostTiles];
  int count;
};

struct Job {
  const WinogradBackwardWeights& a;
  WinogradPlane p;
  int sample_begin;
  int group_begin, group_end;
  int chunk;
  float* v;  // [12][ceil(ci8 / 48)][tiles][48 or what is left]
  float* m;  // [12][groups][tiles][16]
  std::ptrdiff_t v_element, m_element;
};

// Tiles [first, first + count), counted over samples from the call's first one.
void find_tiles(const Job& job, int first, int count, TileRun& run) {
  run.count = count;
  for (int t = 0; t < count; ++t) {
    const int sample = job.sample_begin + (first + t) / job.p.tiles;
    const int tile = (first + t) % job.p.tiles;
    run.tiles[t] = {sample, tile / job.p.tiles_w * 4, tile % job.p.tiles_w * 4};
  }
}

template <int Pair>
void transform_input(const Job& job, const TileRun& run) {
  const WinogradPlane& p = job.p;
  const std::ptrdiff_t plane = std::ptrdiff_t(p.in_h) * p.in_w * 8;
  for (int pair = 0; pair < p.ci8; pair += 16) {
    const int panel = pair / kPanel * kPanel, width = at_most(p.ci8 - panel, kPanel);
    float* out = job.v + std::ptrdiff_t(panel) * job.chunk + pair - panel;
    for (int t = 0; t < run.count; ++t, out += width) {
      const WinogradTile& tile = run.tiles[t];
      for_blocks(0, at_most(p.ci8 - pair, 16) / 8, [&](auto vector, int c) SUREFIT_LAMBDA {
        using V = decltype(vector);
        const auto transform = [&](const auto& window) SUREFIT_LAMBDA {
          V rows[2][6];
          for (int j = 0; j < 6; ++j) {
            V d[6];
            unroll<6>([&](auto i) SUREFIT_LAMBDA { d[i] = window.template at<V>(i, j); });
            input_pair<Pair>(d, rows[0][j], rows[1][j]);
          }
          for (int i = 0; i < 2; ++i) {
            V row[6];
            input_all(rows[i], row);
            unroll<6>([&](auto j) SUREFIT_LAMBDA {
              store_vector(out + c * 8 + (i * 6 + j) * job.v_element, row[j]);
            });
          }
        };
        with_window<6>(job.a.src + tile.sample * job.a.src_stride + (pair / 8 + c) * plane, p.in_h,
                       p.in_w, tile.row - p.pad_top, tile.column - p.pad_left, transform);
      });
    }
  }
}

template <int Pair>
void transform_gradient(const Job& job, const TileRun& run) {
  const WinogradPlane& p = job.p;
  const std::ptrdiff_t plane = std::ptrdiff_t(p.out_h) * p.out_w * 8;
  const int first = job.group_begin * 2, end = at_most(job.group_end * 2, p.co8 / 8);
  for_blocks(first, end, [&](auto vector, int block) {
    using V = decltype(vector);
    float* out = job.m + std::ptrdiff_t((block - first) / 2) * job.chunk * 16 + block % 2 * 8;
    for (int t = 0; t < run.count; ++t, out += 16) {
      const WinogradTile& tile = run.tiles[t];
      const auto transform = [&](const auto& window) SUREFIT_LAMBDA {
        V rows[2][4];
        for (int j = 0; j < 4; ++j) {
          V y[4];
          unroll<4>([&](auto i) SUREFIT_LAMBDA { y[i] = window.template at<V>(i, j); });
          gradient_pair<Pair>(y, rows[0][j], rows[1][j]);
        }
        for (int i = 0; i < 2; ++i) {
          V row[6];
          gradient_all(rows[i], row);
          unroll<6>([&](auto j) SUREFIT_LAMBDA {
            store_vector(out + (i * 6 + j) * job.m_element, row[j]);
          });
        }
      };
      with_window<4>(job.a.diff_dst + tile.sample * job.a.diff_dst_stride + block * plane, p.out_h,
                     p.out_w, tile.row, tile.column, transform);
    }
  });
  if (end == job.group_end * 2) return;
  // The last group has one block only.
  float* out = job.m + std::ptrdiff_t((end - first) / 2) * job.chunk * 16 + 8;
  for (int t = 0; t < run.count; ++t, out += 16) {
    for (int e = 0; e < 12; ++e) store(out + e * job.m_element, V8{});
  }
}

// What a run of tiles does with the sums in du.
enum class Sums {
  kBegin,     // there are none yet
  kContinue,  // goes on from them, so that where a run ends leaves no trace in the bits
  kAdd,       // adds its own
};

// R input channels by G groups of 16 output channels over the tiles in order.
template <int R, int G, Sums How>
SUREFIT_NOINLINE void outer_tile(const float* v, int width, const float* m, std::ptrdiff_t m_group,
                                 int tiles, float* du, std::ptrdiff_t du_group) {
  V16 acc[R][G];
  unroll<R>([&](auto r) SUREFIT_LAMBDA {
    unroll<G>([&](auto g) SUREFIT_LAMBDA {
      acc[r][g] = How == Sums::kContinue ? load16(du + g * du_group + r * 16) : V16{};
    });
  });
#pragma GCC unroll 2
  for (int t = 0; t < tiles; ++t) {
    if constexpr (How != Sums::kBegin) {  // asks for the sums of the next tile
      unroll<G>([&](auto g)
                    SUREFIT_LAMBDA { __builtin_prefetch(du + g * du_group + (R + t) * 16, 1, 3); });
    }
    V16 mv[G];
    unroll<G>([&](auto g) SUREFIT_LAMBDA { mv[g] = hold(load16(m + g * m_group + t * 16)); });
    unroll<R>([&](auto r) SUREFIT_LAMBDA {
      const V16 x = splat16(v[t * width + r]);
      unroll<G>([&](auto g) SUREFIT_LAMBDA { multiply_add(acc[r][g], x, mv[g]); });
    });
  }
  unroll<R>([&](auto r) SUREFIT_LAMBDA {
    unroll<G>([&](auto g) SUREFIT_LAMBDA {
      float* out = du + g * du_group + r * 16;
      store16(out, How == Sums::kAdd ? load16(out) + acc[r][g] : acc[r][g]);
    });
  });
}

// G groups: one element of the window.
template <int G, Sums How>
void accumulate(const Job& job, const float* v, const float* m, int tiles, float* du) {
  const std::ptrdiff_t m_group = std::ptrdiff_t(job.chunk) * 16;
  const std::ptrdiff_t du_group = std::ptrdiff_t(job.p.ci8) * 16 * 36;
  for (int panel = 0; panel < job.p.ci8; panel += kPanel) {
    const int width = at_most(job.p.ci8 - panel, kPanel);
    const int pieces = ceil_div(width, kProductTile);
    const float* at = v + std::ptrdiff_t(panel) * job.chunk;
    for (int i = 0; i < pieces; ++i) {
      const int begin = part_begin(width, pieces, i);
      with_count<kProductTile>(
          part_begin(width, pieces, i + 1) - begin, [&](auto r) SUREFIT_LAMBDA {
            outer_tile<r.value, G, How>(at + begin, width, m, m_group, tiles,
                                        du + std::ptrdiff_t(panel + begin) * 16, du_group);
          });
    }
  }
}

template <int Pair>
void run_tiles(const Job& job, int first, int count, Sums how) {
  TileRun run;
  find_tiles(job, first, count, run);
  transform_input<Pair>(job, run);
  transform_gradient<Pair>(job, run);
  const WinogradPlane& p = job.p;
  const std::ptrdiff_t element = std::ptrdiff_t(p.ci8) * 16;
  const WinogradTile following = tile_behind(run.tiles[count - 1], p.tiles_w, p.tiles);
  const int parts = ceil_div(job.group_end - job.group_begin, kProductGroups) * 12;
  Asking<false> inputs(pixels_of(job.a.src, job.a.src_stride, p.in_h, p.in_w, 0, p.ci8 / 8,
                                 following, count, p.tiles_w, p.tiles),
                       parts);
  Asking<false> gradients(
      pixels_of(job.a.diff_dst, job.a.diff_dst_stride, p.out_h, p.out_w, job.group_begin * 2,
                at_most(job.group_end * 2, p.co8 / 8), following, count, p.tiles_w, p.tiles),
      parts);
  for (int group = job.group_begin; group < job.group_end;) {
    const int groups = at_most(kProductGroups, job.group_end - group);
    for (int k = 0; k < 12; ++k) {
      inputs.ask();
      gradients.ask();
      const int e = (k < 6 ? kPairFirst<Pair> : kPairSecond<Pair>)*6 + k % 6;
      float* du = job.a.du + (std::ptrdiff_t(group) * 36 + e) * element;
      const float* v = job.v + k * job.v_element;
      const float* m =
          job.m + k * job.m_element + std::ptrdiff_t(group - job.group_begin) * job.chunk * 16;
      with_count<kProductGroups>(groups, [&](auto g) SUREFIT_LAMBDA {
        (how == Sums::kBegin      ? accumulate<g.value, Sums::kBegin>
         : how == Sums::kContinue ? accumulate<g.value, Sums::kContinue>
                                  : accumulate<g.value, Sums::kAdd>)(job, v, m, run.count, du);
      });
    }
    group += groups;
  }
}

template <int Pair>
void run_samples(const Job& job, int samples) {
  Sums how = job.a.first                          ? Sums::kBegin
             : winograd_long_picture(job.a.shape) ? Sums::kAdd
                                                  : Sums::kContinue;
  if (winograd_long_picture(job.a.shape)) {
    const int pieces = ceil_div(job.p.tiles, job.chunk);
    for (int n = 0; n < samples; ++n) {
      for (int i = 0; i < pieces; ++i) {
        const int begin = part_begin(job.p.tiles, pieces, i);
        const int end = part_begin(job.p.tiles, pieces, i + 1);
        run_tiles<Pair>(job, n * job.p.tiles + begin, end - begin, how);
        how = Sums::kAdd;
      }
    }
    return;
  }
  const int total = samples * job.p.tiles;
  for (int first = 0; first < total; first += job.chunk) {
    run_tiles<Pair>(job, first, at_most(total - first, job.chunk), how);
    how = Sums::kContinue;
  }
}

void backward_weights(const WinogradBackwardWeights& a, Samples samples, int block,
                      float* scratch) {
  const int pair = block % 3;
  const int per_block = winograd_groups_per_block(a.shape);
  const int groups = winograd_groups(a.shape, WinogradDirection::kForward);
  const int chunk = winograd_gradient_chunk(a.shape);
  const WinogradPlane p = winograd_plane(a.shape, WinogradDirection::kForward);
  const int group_begin = block / 3 * per_block;
  const std::ptrdiff_t v_element = winograd_element(chunk * p.ci8);
  const Job job{a,
                p,
                samples.begin,
                group_begin,
                at_most(group_begin + per_block, groups),
                chunk,
                scratch,
                scratch + 12 * v_element,
                v_element,
                winograd_element(chunk * per_block * 16)};
  const int count = samples.end - samples.begin;
  if (pair == 0) run_samples<0>(job, count);
  if (pair == 1) run_samples<1>(job, count);
  if (pair == 2) run_samples<2>(job, count);
}

void weights_gradient(const WinogradWeightsGradient& a, int group) {
  const WinogradPlane p = winograd_plane(a.shape, WinogradDirection::kForward);
  const std::ptrdiff_t element = std::ptrdiff_t(p.ci8) * 16;
  const std::ptrdiff_t apart = std::ptrdiff_t(p.ci8 / 8) * 9 * 64;  // from block to block
  // Both blocks of a group at once or one after the other: they share cache lines.
  for (int i = 0; i < p.ci8; ++i) {
    for_blocks(group * 2, at_most(group * 2 + 2, p.co8 / 8), [&](auto v, int block) SUREFIT_LAMBDA {
      const float* du = a.du + group * 36 * element + std::ptrdiff_t(i) * 16 + block % 2 * 8;
      float* dw = a.diff_weights + block * apart + i / 8 * 9 * 64 + i % 8 * 8;
      transform_kernel_gradient<decltype(v)>(du, element, dw, apart, 64);
    });
  }
}

}  // namespace

void fill_winograd_gradient(KernelTable& table) {
  table.winograd.backward_weights = backward_weights;
  table.winograd.weights_gradient = weights_gradient;
}

}  // namespace surefit::kernels::SUREFIT_ISA
