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

// R tiles by 16 output channels; goes on from the sums of the input channels before.
template <int R>
SUREFIT_INLINE void product_tile(const float* v, std::ptrdiff_t v_block, const float* u, int blocks,
                                 bool first, float* m) {
  V16 acc[R];
  unroll<R>([&](auto r) SUREFIT_LAMBDA { acc[r] = first ? V16{} : load16(m + r * 16); });
  for (int b = 0; b < blocks; ++b, v += v_block, u += 8 * 16) {
    unroll<8>([&](auto i) SUREFIT_LAMBDA {
      const V16 uv = hold(load16(u + i * 16));
      unroll<R>([&](auto r) SUREFIT_LAMBDA { multiply_add(acc[r], splat16(v[r * 8 + i]), uv); });
    });
  }
  unroll<R>([&](auto r) SUREFIT_LAMBDA { store16(m + r * 16, acc[r]); });
}

void product(const float* v, std::ptrdiff_t v_block, int rows, const float* u, int blocks,
             bool first, float* m) {
  const int pieces = ceil_div(rows, kProductTile);
  for (int i = 0; i < pieces; ++i) {
    const int begin = part_begin(rows, pieces, i);
    with_count<kProductTile>(part_begin(rows, pieces, i + 1) - begin, [&](auto r) SUREFIT_LAMBDA {
      product_tile<r.value>(v + begin * 8, v_block, u, blocks, first, m + begin * 16);
    });
  }
}

void pass(const WinogradFewPass& a, Samples samples, int group, float* scratch) {
  const ConvShape& s = a.pass.shape;
  const WinogradPlane p = winograd_plane(s, a.pass.direction);
  const Tiles tiles{samples.begin, 0, p.tiles, p.tiles_w};
  const int rows = (samples.end - samples.begin) * p.tiles;
  constexpr int depth = kWinogradFewDepth;
  const std::ptrdiff_t v_element = winograd_few_element(a.tiles * 8);
  constexpr std::ptrdiff_t u_element = winograd_few_element(depth * 8 * 16);
  const std::ptrdiff_t m_element = winograd_few_element(a.tiles * 16);
  const float* v = a.v + std::ptrdiff_t(samples.begin) * p.tiles * 8;
  float* const turned = scratch;
  float* const u = turned + kWinogradTurnedFloats;
  float* const m = u + 36 * u_element;
  const KernelBlocks kernels{s, a.pass.direction, a.weights};
  for (int in = 0; in < p.ci8 / 8; in += depth) {
    const int blocks = at_most(p.ci8 / 8 - in, depth);
    for (int b = 0; b < blocks; ++b) {
      transform_kernels(kernels, p, group, in + b, turned, u + b * 8 * 16, u_element);
    }
    const float* ahead[2 * depth];
    for (int b = 0; b < depth; ++b) {
      const int next = at_most(in + depth + b, p.ci8 / 8 - 1);
      for (int half = 0; half < 2; ++half)
        ahead[2 * b + half] = kernels.at(next, at_most(group * 2 + half, p.co8 / 8 - 1));
    }
    for (int e = 0; e < 36; ++e) {
      for (const float* next : ahead) __builtin_prefetch(next + e * 16, 0, 2);
      product(v + (std::ptrdiff_t(in) * 36 + e) * v_element, 36 * v_element, rows,
              u + e * u_element, blocks, in == 0, m + e * m_element);
    }
  }
  WinogradTile positions[kWinogradMostTiles];
  for (int begin = 0; begin < rows; begin += kWinogradMostTiles) {
    const int count = at_most(rows - begin, kWinogradMostTiles);
    for (int t = 0; t < count; ++t) positions[t] = tiles.at(begin + t);
    for_blocks(group * 2, at_most(group * 2 + 2, p.co8 / 8), [&](auto vector, int out_block) {
      transform_output<decltype(vector)>(p, a.pass, out_block, positions, count,
                                         m + std::ptrdiff_t(begin) * 16 + out_block % 2 * 8,
                                         m_element);
    });
  }
}

// R input channels by 16 output channels over the tiles in order.
template <int R>
SUREFIT_INLINE void outer_tile(const float* v, const float* m, int tiles, float* du) {
  V16 acc[R];
  unroll<R>([&](auto r) SUREFIT_LAMBDA { acc[r] = V16{}; });
#pragma GCC unroll 2
  for (int t = 0; t < tiles; ++t) {
    const V16 mv = hold(load16(m + t * 16));
    unroll<R>([&](auto r) SUREFIT_LAMBDA { multiply_add(acc[r], splat16(v[t * 8 + r]), mv); });
  }
  unroll<R>([&](auto r) SUREFIT_LAMBDA { store16(du + r * 16, acc[r]); });
}

void backward_weights(const WinogradFewGradient& a, int group, int block_begin, int block_end,
                      float* du) {
  constexpr int kRows = kRegisters == 32 ? 8 : 4;
  const std::ptrdiff_t v_element = winograd_few_element(a.tiles * 8);
  const std::ptrdiff_t m_element = winograd_few_element(a.tiles * 16);
  const std::ptrdiff_t u_element = winograd_few_element(8 * 16);
  const float* m = a.m + std::ptrdiff_t(group) * 36 * m_element;
  for (int block = block_begin; block < block_end; ++block) {
    const float* v = a.v + std::ptrdiff_t(block) * 36 * v_element;
    for (int e = 0; e < 36; ++e) {
      for (int i = 0; i < 8; i += kRows) {
        outer_tile<kRows>(v + e * v_element + i, m + e * m_element, a.used,
                          du + e * u_element + i * 16);
      }
    }
    const int halves = a.diff_weights[1] != nullptr ? 2 : 1;
    const std::ptrdiff_t apart = halves == 2 ? a.diff_weights[1] - a.diff_weights[0] : 0;
    for_blocks(0, halves, [&](auto vector, int half) SUREFIT_LAMBDA {
      float* out = a.diff_weights[half] + std::ptrdiff_t(block - block_begin) * 9 * 64;
      for (int i = 0; i < 8; ++i) {
        transform_kernel_gradient<decltype(vector)>(du + i * 16 + half * 8, u_element, out + i * 8,
                                                    apart, 64);
      }
    });
  }
}

}  // namespace

void fill_winograd_few(KernelTable& table) {
  table.winograd_few = {transform_input, transform_gradient, pass, backward_weights};
}

}  // namespace surefit::kernels::SUREFIT_ISA
