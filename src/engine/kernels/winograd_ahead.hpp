// SPDX-License-Identifier: Apache-2.0
// Asking for the activations of the next tiles while products of these are computed.
#pragma once

#include "engine/kernels/ahead.hpp"
#include "engine/kernels/winograd_tiles.hpp"

namespace surefit::kernels::SUREFIT_ISA {

SUREFIT_INLINE WinogradTile tile_behind(const WinogradTile& tile, int tiles_w, int tiles) {
  const int next = tile.row / 4 * tiles_w + tile.column / 4 + 1;
  if (next == tiles) return {tile.sample + 1, 0, 0};
  return {tile.sample, next / tiles_w * 4, next % tiles_w * 4};
}

// The pixels of `count` tiles from `first` on, of planes [plane_begin, plane_end) of a picture of
// this size.
inline Ahead pixels_of(const float* pictures, std::ptrdiff_t stride, int h, int w, int plane_begin,
                       int plane_end, WinogradTile first, int count, int tiles_w, int tiles) {
  const std::ptrdiff_t plane = std::ptrdiff_t(h) * w * 8;
  const int index = first.row / 4 * tiles_w + first.column / 4;
  const float* base = pictures + first.sample * stride + plane_begin * plane;
  if (index + count > tiles) {  // several samples: small pictures, their planes side by side
    const int samples = ceil_div(index + count, tiles);
    return {base, stride, samples, int((plane_end - plane_begin) * plane / 16)};
  }
  // Tiles may lie beyond a picture that is smaller than the one they were counted on.
  const int rows = at_least(at_most(((index + count - 1) / tiles_w + 1) * 4, h) - first.row, 0);
  return {base + std::ptrdiff_t(first.row) * w * 8, plane, plane_end - plane_begin,
          ceil_div(rows * w, 2)};
}

}  // namespace surefit::kernels::SUREFIT_ISA
