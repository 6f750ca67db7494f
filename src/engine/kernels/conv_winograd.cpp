// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/conv_winograd.hpp"

#include <cstring>

#include "engine/kernels/table.hpp"
#include "engine/kernels/vec16.hpp"
#include "engine/kernels/winograd_ahead.hpp"
#include "engine/kernels/winograd_transforms.hpp"

namespace surefit::kernels::SUREFIT_ISA {

namespace {

// The 3x3 kernels from eight input channels to eight output channels of the pass, [3][3][8 in][8
// out].
void load_kernels(const WinogradWeights& a, int in_block, int out_block, float* kernels) {
  const int icb = channel_blocks(a.shape.ic);
  if (a.direction == WinogradDirection::kForward) {
    const float* w = a.weights + (std::ptrdiff_t(out_block) * icb + in_block) * 9 * 64;
    std::memcpy(kernels, w, sizeof(float) * 9 * 64);
    return;
  }
  const float* w = a.weights + (std::ptrdiff_t(in_block) * icb + out_block) * 9 * 64;
  for (int k = 0; k < 9; ++k) {
    for (int i = 0; i < 8; ++i) {
      for (int o = 0; o < 8; ++o) kernels[k * 64 + o * 8 + i] = w[(8 - k) * 64 + i * 8 + o];
    }
  }
}

void transform_weights(const WinogradWeights& a, int group) {
  const WinogradPlane p = winograd_plane(a.shape, a.direction);
  const std::ptrdiff_t element = std::ptrdiff_t(p.ci8) * 16;
  float* u = a.u + (group - a.group_begin) * 36 * element;
  // Both halves of a group, one after the other: they share cache lines.
  for (int in_block = 0; in_block < p.ci8 / 8; ++in_block) {
    for (int half = 0; half < 2; ++half) {
      const int out_block = group * 2 + half;
      float* const block = u + std::ptrdiff_t(in_block) * 8 * 16 + half * 8;
      if (out_block * 8 >= p.co8) {
        for (int e = 0; e < 36; ++e) {
          for (int i = 0; i < 8; ++i) store(block + e * element + i * 16, V8{});
        }
        continue;
      }
      float kernels[9 * 64];
      load_kernels(a, in_block, out_block, kernels);
      for (int i = 0; i < 8; ++i) {
        const float* g = kernels + i * 8;
        V8 columns[3][6];
        for (int c = 0; c < 3; ++c) {
          weights_all(load(g + c * 64), load(g + (3 + c) * 64), load(g + (6 + c) * 64), columns[c]);
        }
        for (int r = 0; r < 6; ++r) {
          V8 row[6];
          weights_all(columns[0][r], columns[1][r], columns[2][r], row);
          for (int c = 0; c < 6; ++c) store(block + (r * 6 + c) * element + i * 16, row[c]);
        }
      }
    }
  }
}

// Enumerates the tiles [begin, end) of each sample, sample by sample.
struct Tiles {
  int sample_begin, begin, per_sample, tiles_w;

  SUREFIT_INLINE WinogradTile at(int index) const {
    const int tile = begin + index % per_sample;
    return {sample_begin + index / per_sample, tile / tiles_w * 4, tile % tiles_w * 4};
  }
};

template <class Window>
SUREFIT_INLINE void transform_window(const Window& window, float* out, std::ptrdiff_t element) {
  V8 columns[6][6];
  for (int j = 0; j < 6; ++j) {
    const V8 d[6] = {window.at(0, j), window.at(1, j), window.at(2, j),
                     window.at(3, j), window.at(4, j), window.at(5, j)};
    V8 column[6];
    input_all(d, column);
    unroll<6>([&](auto i) SUREFIT_LAMBDA { columns[i][j] = column[i]; });
  }
  for (int i = 0; i < 6; ++i) {
    V8 row[6];
    input_all(columns[i], row);
    unroll<6>([&](auto j) SUREFIT_LAMBDA { store(out + (i * 6 + j) * element, row[j]); });
  }
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

void transform_output(const WinogradPlane& p, const WinogradPass& a, int out_block,
                      const WinogradTile* tiles, int count, const float* m,
                      std::ptrdiff_t element) {
  const V8 bias = a.bias != nullptr ? load(a.bias + out_block * 8) : V8{};
  for (int t = 0; t < count; ++t) {
    const WinogradTile& tile = tiles[t];
    V8 columns[4][6];
    for (int j = 0; j < 6; ++j) {
      const float* at = m + j * element + std::ptrdiff_t(t) * 16;
      V8 d[6], out[4];
      unroll<6>([&](auto i) SUREFIT_LAMBDA { d[i] = load(at + i * 6 * element); });
      output_all(d, out);
      unroll<4>([&](auto i) SUREFIT_LAMBDA { columns[i][j] = out[i]; });
    }
    float* y = a.dst + tile.sample * a.dst_stride +
               ((std::ptrdiff_t(out_block) * p.out_h + tile.row) * p.out_w + tile.column) * 8;
    const int rows = at_most(p.out_h - tile.row, 4), width = at_most(p.out_w - tile.column, 4);
    for (int i = 0; i < rows; ++i, y += std::ptrdiff_t(p.out_w) * 8) {
      V8 out[4];
      output_all(columns[i], out);
      unroll<4>([&](auto j) SUREFIT_LAMBDA {
        const V8 value = out[j] + bias;
        if (j < width) store(y + j * 8, a.relu ? relu(value) : value);
      });
    }
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

void fill_winograd(KernelTable& table) {
  table.winograd.transform_weights = transform_weights;
  table.winograd.pass = pass;
  fill_winograd_gradient(table);
}

}  // namespace surefit::kernels::SUREFIT_ISA
