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
  float turned[kWinogradTurnedFloats];
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
      for_blocks(pair, at_most(pair + 2, p.ci8 / 8), [&](auto vector, int c) SUREFIT_LAMBDA {
        with_window<6>(src + tiles[t].sample * src_stride + c * plane, p.in_h, p.in_w,
                       tiles[t].row - p.pad_top, tiles[t].column - p.pad_left,
                       [&](const auto& window) SUREFIT_LAMBDA {
                         transform_window<decltype(vector)>(
                             window, v + std::ptrdiff_t(t) * pitch + c * 8, element);
                       });
      });
    }
  }
}

// Three rows, `pitch` floats apart. Their addresses are one register plus 0, 1 and 2 times another;
// twelve rows with an address each do not fit into the registers there are.
struct ThreeRows {
  const float* first;

  SUREFIT_INLINE void forward(int floats) {
    first += floats;
    asm("" : "+r"(first));  // or the compiler goes back to twelve
  }
};

// R rows by G groups of 16 columns over k input channels in order; k is a multiple of 8.
template <int R, int G>
SUREFIT_INLINE void product_tile(const float* a, std::ptrdiff_t pitch, const float* b,
                                 std::ptrdiff_t b_group, int k, float* c, std::ptrdiff_t c_group) {
  V16 acc[R][G];
  ThreeRows rows[(R + 2) / 3];
  unroll<R>([&](auto r) SUREFIT_LAMBDA {
    unroll<G>([&](auto g) SUREFIT_LAMBDA { acc[r][g] = V16{}; });
    if (r % 3 == 0) rows[r / 3].first = a + r * pitch;
  });
  for (int i = 0; i < k; i += 4, b += 4 * 16) {
    unroll<4>([&](auto j) SUREFIT_LAMBDA {
      V16 bv[G];
      unroll<G>([&](auto g) SUREFIT_LAMBDA { bv[g] = hold(load16(b + g * b_group + j * 16)); });
      unroll<R>([&](auto r) SUREFIT_LAMBDA {
        const V16 x = splat16(rows[r / 3].first[r % 3 * pitch + j]);
        unroll<G>([&](auto g) SUREFIT_LAMBDA { multiply_add(acc[r][g], x, bv[g]); });
      });
    });
    unroll<(R + 2) / 3>([&](auto i3) SUREFIT_LAMBDA { rows[i3].forward(4); });
  }
  unroll<R>([&](auto r) SUREFIT_LAMBDA {
    unroll<G>([&](auto g) SUREFIT_LAMBDA { store16(c + g * c_group + r * 16, acc[r][g]); });
  });
}

// Meanwhile asks for the U that is needed next, evenly, if it comes from far away.
template <int G>
void product(const float* v, int pitch, int rows, const float* u, std::ptrdiff_t u_group, int k,
             const float* next, float* m, std::ptrdiff_t m_group) {
  const int pieces = ceil_div(rows, kProductTile);
  for (int i = 0; i < pieces; ++i) {
    const int begin = part_begin(rows, pieces, i);
    if (next != nullptr) {
      for (int line = part_begin(k, pieces, i); line < part_begin(k, pieces, i + 1); ++line) {
        for (int g = 0; g < G; ++g)
          __builtin_prefetch(next + g * u_group + std::ptrdiff_t(line) * 16, 0, 2);
      }
    }
    with_count<kProductTile>(part_begin(rows, pieces, i + 1) - begin, [&](auto r) SUREFIT_LAMBDA {
      product_tile<r.value, G>(v + std::ptrdiff_t(begin) * pitch, pitch, u, u_group, k,
                               m + std::ptrdiff_t(begin) * 16, m_group);
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
        for (int i = 0; i < batch;) {
          const float* u = a.u + ((from - a.group_begin + i) * 36 + e) * u_element;
          const int groups = at_most(kProductGroups, batch - i);
          const float* next =
              i + groups < batch ? u + groups * 36 * u_element : u + (1 - i * 36) * u_element;
          if (p.ci8 <= 256) next = nullptr;
          with_count<kProductGroups>(groups, [&](auto g) SUREFIT_LAMBDA {
            product<g.value>(v + e * v_element, pitch, count, u, 36 * u_element, p.ci8, next,
                             m + (i * 36 + e) * m_element, 36 * m_element);
          });
          i += groups;
        }
      }
      for_blocks(0, at_most(batch * 2, p.co8 / 8 - from * 2), [&](auto vector, int i) {
        transform_output<decltype(vector)>(p, a, from * 2 + i, positions, count,
                                           m + i / 2 * 36 * m_element + i % 2 * 8, m_element);
      });
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
