// SPDX-License-Identifier: Apache-2.0
// What all Winograd passes do with the tiles of pictures: which there are, into the transformed
// domain, and back.
#pragma once

#include "engine/kernels/conv_winograd.hpp"
#include "engine/kernels/winograd_transforms.hpp"

namespace surefit::kernels::SUREFIT_ISA {

// A tile's sample and upper left output pixel.
struct WinogradTile {
  int sample, row, column;
};

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

// Of an output's gradient, 4x4.
template <class Window>
SUREFIT_INLINE void transform_gradient_window(const Window& window, float* out,
                                              std::ptrdiff_t element) {
  V8 columns[6][4];
  for (int j = 0; j < 4; ++j) {
    const V8 y[4] = {window.at(0, j), window.at(1, j), window.at(2, j), window.at(3, j)};
    V8 column[6];
    gradient_all(y, column);
    unroll<6>([&](auto i) SUREFIT_LAMBDA { columns[i][j] = column[i]; });
  }
  for (int i = 0; i < 6; ++i) {
    V8 row[6];
    gradient_all(columns[i], row);
    unroll<6>([&](auto j) SUREFIT_LAMBDA { store(out + (i * 6 + j) * element, row[j]); });
  }
}

inline void transform_output(const WinogradPlane& p, const WinogradPass& a, int out_block,
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

}  // namespace surefit::kernels::SUREFIT_ISA
