// SPDX-License-Identifier: Apache-2.0
// Copies rows of a picture into scratch with their padding as zeros, so that the inner loops have
// no edges.
#pragma once

#include <cstring>

#include "engine/kernels/conv_shape.hpp"
#include "engine/kernels/vec.hpp"

namespace surefit::kernels::SUREFIT_ISA {

// One row: `floats` wide, starting pad_left pixels left of the picture; ih may lie outside.
SUREFIT_INLINE void stage_row(const ConvShape& s, const float* picture, int ih, int floats,
                              float* out) {
  const int left = at_most(s.pad_left * s.ic, floats);
  const int copied = ih < 0 || ih >= s.h ? 0 : at_most(s.w * s.ic, floats - left);
  const int before = copied == 0 ? 0 : left;
  std::memset(out, 0, sizeof(float) * std::size_t(before));
  std::memcpy(out + before, picture + std::ptrdiff_t(ih) * s.w * s.ic * (copied == 0 ? 0 : 1),
              sizeof(float) * std::size_t(copied));
  std::memset(out + before + copied, 0, sizeof(float) * std::size_t(floats - before - copied));
}

SUREFIT_INLINE void stage_rows(const ConvShape& s, const float* picture, int first_row, int rows,
                               int row_floats, float* out) {
  for (int i = 0; i < rows; ++i) {
    stage_row(s, picture, first_row + i, row_floats, out + std::ptrdiff_t(i) * row_floats);
  }
}

}  // namespace surefit::kernels::SUREFIT_ISA
