// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/conv_winograd.hpp"

#include "engine/kernels/table.hpp"
#include "engine/kernels/vec16.hpp"
#include "engine/kernels/winograd_ahead.hpp"
#include "engine/kernels/winograd_kernels.hpp"
#include "engine/kernels/winograd_tiles.hpp"

namespace surefit::kernels::SUREFIT_ISA {

namespace {

void transform_weights(const WinogradWeights& a, int group) {
  const WinogradPlane p = winograd_plane(a.shape, a.direction);
  const std::ptrdiff_t element = std::ptrdiff_t(p.ci8) * 16;
  float* u = a.u + (group - a.group_begin) * 36 * element;
  float turned[9 * 64];
  const KernelBlocks kernels{a.shape, a.direction, a.weights};
  for (int in_block = 0; in_block < p.ci8 / 8; ++in_block, u += 8 * 16)
    transform_kernels(kernels, p, group, in_block, turned, u, element);
}

// Channels outside, tiles inside: neighbouring tiles of one plane share their cache lines. Two
// planes at a time, because their results share one.
void transform_input(const WinogradPlane& p, const float* src, std::ptrdiff_t src_stride,
                     const WinogradTile* tiles, int count, float* v, std::ptrdiff_t element) {
  const std::ptrdiff_t plane = std::ptrdiff_t(p.in_h) * p.in_w * 8;
  const int pitch = winograd_pitch(p.ci8);
  for (int pair = 0; pair < p.ci8 / 8; pair += 2) {
    for (int t = 0; t < count; ++t) {
      for (int c = pair; c < at_most(pair + 2, p.ci8 / 8); ++c) {
        with_window<6>(src + tiles[t].sample * src_stride + c * plane, p.in_h, p.in_w,
                       tiles[t].row - p.pad_top, tiles[t].column - p.pad_left,
                       [&](const auto& window) SUREFIT_LAMBDA {
                         transform_window(window, v + std::ptrdiff_t(t) * pitch + c * 8, element);
                       });
      }
    }
  }
}

// R rows by 16 columns over k input channels in order.
template <int R>
SUREFIT_INLINE void product_tile(const float* a, std::ptrdiff_t pitch, const float* b, int k,
                                 float* c) {
  V16 acc[R];
  unroll<R>([&](auto r) SUREFIT_LAMBDA { acc[r] = V16{}; });
#pragma GCC unroll 4
  for (int i = 0; i < k; ++i) {
    const V16 bv = hold(load16(b + i * 16));
    unroll<R>([&](auto r) SUREFIT_LAMBDA { multiply_add(acc[r], a[r * pitch + i], bv); });
  }
  unroll<R>([&](auto r) SUREFIT_LAMBDA { store16(c + r * 16, acc[r]); });
}

// Meanwhile asks for the U that is needed next, evenly, if it comes from far away.
void product(const float* v, int pitch, int rows, const float* u, int k, const float* next,
             float* m) {
  const int pieces = ceil_div(rows, kProductTile);
  for (int i = 0; i < pieces; ++i) {
    const int begin = part_begin(rows, pieces, i);
    if (next != nullptr) {
      for (int line = part_begin(k, pieces, i); line < part_begin(k, pieces, i + 1); ++line) {
        __builtin_prefetch(next + std::ptrdiff_t(line) * 16, 0, 2);
      }
    }
    with_count<kProductTile>(part_begin(rows, pieces, i + 1) - begin, [&](auto r) SUREFIT_LAMBDA {
      product_tile<r.value>(v + std::ptrdiff_t(begin) * pitch, pitch, u, k,
                            m + std::ptrdiff_t(begin) * 16);
    });
  }
}

void pass(const WinogradPass& a, Samples samples, int block, float* scratch) {
  const WinogradPlane p = winograd_plane(a.shape, a.direction);
  const int blocks = winograd_blocks(a.shape, a.direction);
  const int chunk = winograd_chunk(a.shape, a.direction);
  const int begin = part_begin(p.tiles, blocks, block);
  const Tiles tiles{samples.begin, begin, part_begin(p.tiles, blocks, block + 1) - begin,
                    p.tiles_w};
  const int total = tiles.per_sample * (samples.end - samples.begin);
  const int pitch = winograd_pitch(p.ci8);
  const std::ptrdiff_t v_element = winograd_element(chunk * pitch);
  const std::ptrdiff_t m_element = winograd_element(chunk * 16);
  const std::ptrdiff_t u_element = std::ptrdiff_t(p.ci8) * 16;
  float* v = scratch;
  float* m = scratch + 36 * v_element;
  const int pieces = ceil_div(total, chunk);
  for (int piece = 0; piece < pieces; ++piece) {
    const int first = part_begin(total, pieces, piece);
    const int count = part_begin(total, pieces, piece + 1) - first;
    WinogradTile positions[kWinogradMostTiles];
    for (int t = 0; t < count; ++t) positions[t] = tiles.at(first + t);
    transform_input(p, a.src, a.src_stride, positions, count, v, v_element);
    const int most = winograd_batch(p.ci8);
    // What comes next is behind this: the next tiles of this call, of the next one, the next
    // sample.
    const WinogradTile following = tile_behind(positions[count - 1], p.tiles_w, p.tiles);
    Asking<false> inputs(pixels_of(a.src, a.src_stride, p.in_h, p.in_w, 0, p.ci8 / 8, following,
                                   at_most(count, p.tiles), p.tiles_w, p.tiles),
                         36);
    for (int from = a.group_begin; from < a.group_end; from += most) {
      const int batch = at_most(a.group_end - from, most);
      Asking<true> outputs(pixels_of(a.dst, a.dst_stride, p.out_h, p.out_w, from * 2,
                                     at_most((from + batch) * 2, p.co8 / 8), positions[0], count,
                                     p.tiles_w, p.tiles),
                           36);
      for (int e = 0; e < 36; ++e) {
        outputs.ask();
        inputs.ask();  // all of it by the end of the first groups
        for (int i = 0; i < batch; ++i) {
          const float* u = a.u + ((from - a.group_begin + i) * 36 + e) * u_element;
          const float* next = i + 1 < batch ? u + 36 * u_element : u + (1 - i * 36) * u_element;
          if (most == 1) next = nullptr;
          product(v + e * v_element, pitch, count, u, p.ci8, next, m + (i * 36 + e) * m_element);
        }
      }
      for (int i = 0; i < batch * 2; ++i) {
        const int out_block = from * 2 + i;
        if (out_block * 8 >= p.co8) break;
        transform_output(p, a, out_block, positions, count, m + i / 2 * 36 * m_element + i % 2 * 8,
                         m_element);
      }
    }
  }
}

}  // namespace

void fill_winograd_gradient(KernelTable& table);
void fill_winograd_few(KernelTable& table);

void fill_winograd(KernelTable& table) {
  table.winograd.transform_weights = transform_weights;
  table.winograd.pass = pass;
  fill_winograd_gradient(table);
  fill_winograd_few(table);
}

}  // namespace surefit::kernels::SUREFIT_ISA
