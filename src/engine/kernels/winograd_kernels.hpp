// SPDX-License-Identifier: Apache-2.0
// From a convolution's weights to the transformed ones, block by block.
#pragma once

#include "engine/kernels/vec_math.hpp"
#include "engine/kernels/winograd_transforms.hpp"

namespace surefit::kernels::SUREFIT_ISA {

struct KernelBlocks {
  const ConvShape& shape;
  WinogradDirection direction;
  const float* weights;

  SUREFIT_INLINE const float* at(int in_block, int out_block) const {
    const int icb = channel_blocks(shape.ic);
    const bool forward = direction == WinogradDirection::kForward;
    return weights + (std::ptrdiff_t(forward ? out_block : in_block) * icb +
                      (forward ? in_block : out_block)) *
                         9 * 64;
  }
  // Copies the 3x3 kernels from eight input channels to eight output channels of the pass,
  // [3][3][8 in][8 out]. Backward-data's are the weights' own turned over.
  SUREFIT_INLINE void turn(int in_block, int out_block, float* turned) const {
    const float* w = at(in_block, out_block);
    if (direction == WinogradDirection::kForward) {
      std::memcpy(turned, w, sizeof(float) * 9 * 64);
      return;
    }
    for (int k = 0; k < 9; ++k) {
      V8 rows[8];
      unroll<8>([&](auto i) SUREFIT_LAMBDA { rows[i] = load(w + (8 - k) * 64 + i * 8); });
      transpose(rows);
      unroll<8>([&](auto i) SUREFIT_LAMBDA { store(turned + k * 64 + i * 8, rows[i]); });
    }
  }
};

// From eight input channels to the sixteen output channels of a group: [36][8][16], `element`
// floats from one element to the next. Both blocks at once or one after the other: they share cache
// lines. `turned` has room for kWinogradTurnedFloats.
SUREFIT_INLINE void transform_kernels(const KernelBlocks& blocks, const WinogradPlane& p, int group,
                                      int in_block, float* turned, float* u,
                                      std::ptrdiff_t element) {
  const int end = at_most(group * 2 + 2, p.co8 / 8);
  for (int out_block = group * 2; out_block < end; ++out_block)
    blocks.turn(in_block, out_block, turned + (out_block - group * 2) * 9 * 64);
  for_blocks(0, end - group * 2, [&](auto v, int half) SUREFIT_LAMBDA {
    for (int i = 0; i < 8; ++i) {
      transform_kernel<decltype(v)>(turned + half * 9 * 64 + i * 8, 9 * 64, 64,
                                    u + half * 8 + i * 16, element);
    }
  });
  if (end == group * 2 + 2) return;
  for (int e = 0; e < 36; ++e) {
    for (int i = 0; i < 8; ++i) store(u + e * element + i * 16 + 8, V8{});
  }
}

}  // namespace surefit::kernels::SUREFIT_ISA
