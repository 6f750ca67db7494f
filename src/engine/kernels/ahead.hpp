// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/kernels/conv_shape.hpp"
#include "engine/kernels/vec.hpp"

namespace surefit::kernels::SUREFIT_ISA {

// Memory that will be needed soon: rows of some planes, or whole samples. Activations of a batch do
// not fit into the caches, and the windows' rows are too short for the hardware to see them coming
// (64 channels at 32x32, 128 samples: 309 GFLOP/s, 240 without asking). It need not exist.
struct Ahead {
  const float* base = nullptr;
  std::ptrdiff_t plane = 0;  // floats
  int planes = 0, lines = 0;
};

// Asks for it in equal parts, from the beginning to the end, to read or to write it.
template <bool Write>
struct Asking {
  const float* row;
  std::ptrdiff_t plane;
  int lines, line = 0, left, each;

  SUREFIT_INLINE Asking(const Ahead& what, int parts)
      : row(what.base),
        plane(what.plane),
        lines(what.lines),
        left(what.planes * what.lines),
        each(ceil_div(left, at_least(parts, 1))) {}

  SUREFIT_INLINE void ask() {
    for (int i = at_most(each, left); i > 0; --i, --left) {
      __builtin_prefetch(row + std::ptrdiff_t(line) * 16, Write ? 1 : 0, 2);
      if (++line == lines) {
        line = 0;
        row += plane;
      }
    }
  }
};

}  // namespace surefit::kernels::SUREFIT_ISA
