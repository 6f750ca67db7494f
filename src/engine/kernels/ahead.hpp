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

  // Part `part` of `parts`.
  template <bool Write>
  SUREFIT_INLINE void ask(int part, int parts) const {
    const int total = planes * lines, end = part_begin(total, parts, part + 1);
    int at = part_begin(total, parts, part);
    if (at == end) return;
    int line = at % lines;
    const float* row = base + at / lines * plane;
    for (; at < end; ++at) {
      __builtin_prefetch(row + std::ptrdiff_t(line) * 16, Write ? 1 : 0, 2);
      if (++line == lines) {
        line = 0;
        row += plane;
      }
    }
  }
};

}  // namespace surefit::kernels::SUREFIT_ISA
