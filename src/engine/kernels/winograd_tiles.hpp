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

template <class V, class Window>
SUREFIT_INLINE void transform_window(const Window& window, float* out, std::ptrdiff_t element) {
  V columns[6][6];
  for (int j = 0; j < 6; ++j) {
    V d[6], column[6];
    unroll<6>([&](auto i) SUREFIT_LAMBDA { d[i] = window.template at<V>(i, j); });
    input_all(d, column);
    unroll<6>([&](auto i) SUREFIT_LAMBDA { columns[i][j] = column[i]; });
  }
  for (int i = 0; i < 6; ++i) {
    V row[6];
    input_all(columns[i], row);
    unroll<6>([&](auto j) SUREFIT_LAMBDA { store_vector(out + (i * 6 + j) * element, row[j]); });
  }
}

// Of an output's gradient, 4x4.
template <class V, class Window>
SUREFIT_INLINE void transform_gradient_window(const Window& window, float* out,
                                              std::ptrdiff_t element) {
  V columns[6][4];
  for (int j = 0; j < 4; ++j) {
    V y[4], column[6];
    unroll<4>([&](auto i) SUREFIT_LAMBDA { y[i] = window.template at<V>(i, j); });
    gradient_all(y, column);
    unroll<6>([&](auto i) SUREFIT_LAMBDA { columns[i][j] = column[i]; });
  }
  for (int i = 0; i < 6; ++i) {
    V row[6];
    gradient_all(columns[i], row);
    unroll<6>([&](auto j) SUREFIT_LAMBDA { store_vector(out + (i * 6 + j) * element, row[j]); });
  }
}

// One or two blocks of outputs from their products, which lie side by side.
template <class V>
void transform_output(const WinogradPlane& p, const WinogradPass& a, int out_block,
                      const WinogradTile* tiles, int count, const float* m,
                      std::ptrdiff_t element) {
  const std::ptrdiff_t plane = std::ptrdiff_t(p.out_h) * p.out_w * 8;
  const V bias = a.bias != nullptr ? load_vector<V>(a.bias + out_block * 8) : V{};
  for (int t = 0; t < count; ++t) {
    const WinogradTile& tile = tiles[t];
    V columns[4][6];
    for (int j = 0; j < 6; ++j) {
      const float* at = m + j * element + std::ptrdiff_t(t) * 16;
      V d[6], out[4];
      unroll<6>([&](auto i) SUREFIT_LAMBDA { d[i] = load_vector<V>(at + i * 6 * element); });
      output_all(d, out);
      unroll<4>([&](auto i) SUREFIT_LAMBDA { columns[i][j] = out[i]; });
    }
    float* y = a.dst + tile.sample * a.dst_stride + out_block * plane +
               (std::ptrdiff_t(tile.row) * p.out_w + tile.column) * 8;
    const int rows = at_most(p.out_h - tile.row, 4), width = at_most(p.out_w - tile.column, 4);
    for (int i = 0; i < rows; ++i, y += std::ptrdiff_t(p.out_w) * 8) {
      V out[4];
      output_all(columns[i], out);
      unroll<4>([&](auto j) SUREFIT_LAMBDA {
        const V value = out[j] + bias;
        if (j < width) store_blocks(y + j * 8, plane, a.relu ? relu(value) : value);
      });
    }
  }
}

}  // namespace surefit::kernels::SUREFIT_ISA
