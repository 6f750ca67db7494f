// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/conv_winograd_few.hpp"

#include "engine/kernels/table.hpp"
#include "engine/kernels/vec16.hpp"
#include "engine/kernels/winograd_kernels.hpp"
#include "engine/kernels/winograd_tiles.hpp"

namespace surefit::kernels::SUREFIT_ISA {

namespace {

void transform_input(const WinogradFewPicture& a, Samples samples, int part, int parts) {
  const WinogradPlane p = winograd_plane(a.shape, a.direction);
  const std::ptrdiff_t plane = std::ptrdiff_t(p.in_h) * p.in_w * 8;
  const std::ptrdiff_t element = winograd_few_element(a.tiles * 8);
  const int end = part_begin(p.ci8 / 8, parts, part + 1);
  for (int c = part_begin(p.ci8 / 8, parts, part); c < end; ++c) {
    for (int n = samples.begin; n < samples.end; ++n) {
      float* out = a.out + c * 36 * element + std::ptrdiff_t(n) * p.tiles * 8;
      for (int t = 0; t < p.tiles; ++t, out += 8) {
        with_window<6>(a.src + n * a.src_stride + c * plane, p.in_h, p.in_w,
                       t / p.tiles_w * 4 - p.pad_top, t % p.tiles_w * 4 - p.pad_left,
                       [&](const auto& window)
                           SUREFIT_LAMBDA { transform_window<V8>(window, out, element); });
      }
    }
  }
}

void transform_gradient(const WinogradFewPicture& a, Samples samples, int part, int parts) {
  const WinogradPlane p = winograd_plane(a.shape, WinogradDirection::kForward);
  const std::ptrdiff_t plane = std::ptrdiff_t(p.out_h) * p.out_w * 8;
  const std::ptrdiff_t element = winograd_few_element(a.tiles * 16);
  const int groups = ceil_div(p.co8, 16);
  const int end = part_begin(groups, parts, part + 1);
  for (int group = part_begin(groups, parts, part); group < end; ++group) {
    const int block_end = at_most(group * 2 + 2, p.co8 / 8);
    for (int n = samples.begin; n < samples.end; ++n) {
      float* out = a.out + group * 36 * element + std::ptrdiff_t(n) * p.tiles * 16;
      for (int t = 0; t < p.tiles; ++t, out += 16) {
        for_blocks(group * 2, block_end, [&](auto vector, int c) SUREFIT_LAMBDA {
          with_window<4>(a.src + n * a.src_stride + c * plane, p.out_h, p.out_w, t / p.tiles_w * 4,
                         t % p.tiles_w * 4, [&](const auto& window) SUREFIT_LAMBDA {
                           transform_gradient_window<decltype(vector)>(window, out + c % 2 * 8,
                                                                       element);
                         });
        });
        if (block_end == group * 2 + 2) continue;
        for (int e = 0; e < 36; ++e) store(out + 8 + e * element, V8{});
      }
    }
  }
}

// R tiles by G groups of 16 output channels; goes on from the sums of the input channels before.
// The groups' weights follow each other, their sums are `m_group` floats apart.
template <int R, int G>
SUREFIT_INLINE void product_tile(const float* v, std::ptrdiff_t v_block, const float* u, int blocks,
                                 bool first, float* m, std::ptrdiff_t m_group) {
  V16 acc[R][G];
  unroll<R>([&](auto r) SUREFIT_LAMBDA {
    unroll<G>([&](auto g)
                  SUREFIT_LAMBDA { acc[r][g] = first ? V16{} : load16(m + g * m_group + r * 16); });
  });
  for (int b = 0; b < blocks; ++b, v += v_block, u += G * 8 * 16) {
    unroll<8>([&](auto i) SUREFIT_LAMBDA {
      V16 uv[G];
      unroll<G>([&](auto g) SUREFIT_LAMBDA { uv[g] = hold(load16(u + (g * 8 + i) * 16)); });
      unroll<R>([&](auto r) SUREFIT_LAMBDA {
        const V16 x = splat16(v[r * 8 + i]);
        unroll<G>([&](auto g) SUREFIT_LAMBDA { multiply_add(acc[r][g], x, uv[g]); });
      });
    });
  }
  unroll<R>([&](auto r) SUREFIT_LAMBDA {
    unroll<G>([&](auto g) SUREFIT_LAMBDA { store16(m + g * m_group + r * 16, acc[r][g]); });
  });
}

template <int G>
void product(const float* v, std::ptrdiff_t v_block, int rows, const float* u, int blocks,
             bool first, float* m, std::ptrdiff_t m_group) {
  const int pieces = ceil_div(rows, kProductTile);
  for (int i = 0; i < pieces; ++i) {
    const int begin = part_begin(rows, pieces, i);
    with_count<kProductTile>(part_begin(rows, pieces, i + 1) - begin, [&](auto r) SUREFIT_LAMBDA {
      product_tile<r.value, G>(v + begin * 8, v_block, u, blocks, first, m + begin * 16, m_group);
    });
  }
}

// Of G groups from `group` on.
template <int G>
void pass_groups(const WinogradFewPass& a, Samples samples, int group, float* scratch) {
  const ConvShape& s = a.pass.shape;
  const WinogradPlane p = winograd_plane(s, a.pass.direction);
  const Tiles tiles{samples.begin, 0, p.tiles, p.tiles_w};
  const int rows = (samples.end - samples.begin) * p.tiles;
  constexpr int depth = kWinogradFewDepth;
  const std::ptrdiff_t v_element = winograd_few_element(a.tiles * 8);
  constexpr std::ptrdiff_t u_element = winograd_few_element(G * depth * 8 * 16);
  const std::ptrdiff_t m_element = winograd_few_element(a.tiles * 16);
  const float* v = a.v + std::ptrdiff_t(samples.begin) * p.tiles * 8;
  float* const turned = scratch;
  float* const u = turned + kWinogradTurnedFloats;
  float* const m = u + 36 * u_element;
  const int out_begin = group * 2, out_end = at_most(out_begin + 2 * G, p.co8 / 8);
  const KernelBlocks kernels{s, a.pass.direction, a.weights};
  for (int in = 0; in < p.ci8 / 8; in += depth) {
    const int blocks = at_most(p.ci8 / 8 - in, depth);
    for (int b = 0; b < blocks; ++b) {
      for (int g = 0; g < G; ++g) {
        transform_kernels(kernels, p, group + g, in + b, turned, u + (b * G + g) * 8 * 16,
                          u_element);
      }
    }
    // What comes next: of these groups, or behind their last the first of the next groups.
    const bool done = in + depth >= p.ci8 / 8;
    const float* ahead[depth * 2 * G];
    for (int b = 0; b < depth; ++b) {
      const int next_in = at_most((done ? 0 : in + depth) + b, p.ci8 / 8 - 1);
      for (int i = 0; i < 2 * G; ++i) {
        const int next_out = at_most((done ? out_end : out_begin) + i, p.co8 / 8 - 1);
        ahead[b * 2 * G + i] = kernels.at(next_in, next_out);
      }
    }
    for (int e = 0; e < 36; ++e) {
      for (const float* next : ahead) __builtin_prefetch(next + e * 16, 0, 2);
      product<G>(v + (std::ptrdiff_t(in) * 36 + e) * v_element, 36 * v_element, rows,
                 u + e * u_element, blocks, in == 0, m + e * m_element, 36 * m_element);
    }
  }
  WinogradTile positions[kWinogradMostTiles];
  for (int begin = 0; begin < rows; begin += kWinogradMostTiles) {
    const int count = at_most(rows - begin, kWinogradMostTiles);
    for (int t = 0; t < count; ++t) positions[t] = tiles.at(begin + t);
    for_blocks(0, out_end - out_begin, [&](auto vector, int i) {
      transform_output<decltype(vector)>(
          p, a.pass, out_begin + i, positions, count,
          m + i / 2 * 36 * m_element + std::ptrdiff_t(begin) * 16 + i % 2 * 8, m_element);
    });
  }
}

// Calls f(Int<G>{}, group) for the groups of a block: all at once, or one after the other where
// there are too few registers.
template <class F>
SUREFIT_INLINE void for_groups(int groups, int block, F f) {
  static_assert(kWinogradFewGroups % kProductGroups == 0);
  const int end = at_most((block + 1) * kWinogradFewGroups, groups);
  for (int group = block * kWinogradFewGroups; group < end; group += kProductGroups) {
    with_count<kProductGroups>(at_most(kProductGroups, end - group),
                               [&](auto count) SUREFIT_LAMBDA { f(count, group); });
  }
}

void pass(const WinogradFewPass& a, Samples samples, int block, float* scratch) {
  for_groups(winograd_groups(a.pass.shape, a.pass.direction), block,
             [&](auto count, int group) { pass_groups<count.value>(a, samples, group, scratch); });
}

// R input channels by G groups of 16 output channels over the tiles in order.
template <int R, int G>
SUREFIT_INLINE void outer_tile(const float* v, const float* m, std::ptrdiff_t m_group, int tiles,
                               float* du) {
  V16 acc[R][G];
  unroll<R>([&](auto r)
                SUREFIT_LAMBDA { unroll<G>([&](auto g) SUREFIT_LAMBDA { acc[r][g] = V16{}; }); });
#pragma GCC unroll 4
  for (int t = 0; t < tiles; ++t) {
    V16 mv[G];
    unroll<G>([&](auto g) SUREFIT_LAMBDA { mv[g] = hold(load16(m + g * m_group + t * 16)); });
    unroll<R>([&](auto r) SUREFIT_LAMBDA {
      const V16 x = splat16(v[t * 8 + r]);
      unroll<G>([&](auto g) SUREFIT_LAMBDA { multiply_add(acc[r][g], x, mv[g]); });
    });
  }
  unroll<R>([&](auto r) SUREFIT_LAMBDA {
    unroll<G>([&](auto g) SUREFIT_LAMBDA { store16(du + (r * G + g) * 16, acc[r][g]); });
  });
}

// From one block of input channels to the G groups from `group` on.
template <int G>
void gradient_groups(const WinogradFewGradient& a, int group, int in, float* du, float* diff) {
  constexpr int kRows = kRegisters == 32 ? 8 : 4;
  const std::ptrdiff_t v_element = winograd_few_element(a.tiles * 8);
  const std::ptrdiff_t m_element = winograd_few_element(a.tiles * 16);
  constexpr std::ptrdiff_t u_element = winograd_few_element(G * 8 * 16);
  const float* m = a.m + std::ptrdiff_t(group) * 36 * m_element;
  const float* v = a.v + std::ptrdiff_t(in) * 36 * v_element;
  const int out_blocks = at_most(2 * G, channel_blocks(a.shape.oc) - group * 2);
  const std::ptrdiff_t in_blocks = channel_blocks(a.shape.ic);
  const std::ptrdiff_t weights = (group * 2 * in_blocks + in) * 9 * 64;
  for (int e = 0; e < 36; ++e) {
    for (const float* array : a.ahead) {  // 36 lines of each block
      if (array == nullptr) break;
      for (int i = 0; i < out_blocks; ++i)
        __builtin_prefetch(array + weights + i * in_blocks * 9 * 64 + e * 16, 1, 2);
    }
    for (int i = 0; i < 8; i += kRows) {
      outer_tile<kRows, G>(v + e * v_element + i, m + e * m_element, 36 * m_element, a.used,
                           du + e * u_element + i * G * 16);
    }
  }
  for_blocks(0, out_blocks, [&](auto vector, int block) SUREFIT_LAMBDA {
    const float* from = du + block / 2 * 16 + block % 2 * 8;
    for (int i = 0; i < 8; ++i) {
      transform_kernel_gradient<decltype(vector)>(from + i * G * 16, u_element,
                                                  diff + block * a.apart + i * 8, a.apart, 64);
    }
  });
}

void backward_weights(const WinogradFewGradient& a, int block, int in_begin, int in_end,
                      float* du) {
  for (int in = in_begin; in < in_end; ++in) {
    float* diff = a.diff_weights + std::ptrdiff_t(in - in_begin) * 9 * 64;
    for_groups(winograd_groups(a.shape, WinogradDirection::kForward), block,
               [&](auto count, int group) {
                 gradient_groups<count.value>(a, group, in, du, diff);
                 diff += count.value * 2 * a.apart;
               });
  }
}

}  // namespace

void fill_winograd_few(KernelTable& table) {
  table.winograd_few = {transform_input, transform_gradient, pass, backward_weights};
}

}  // namespace surefit::kernels::SUREFIT_ISA
