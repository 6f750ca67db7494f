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
  // From one block of output channels to the next.
  SUREFIT_INLINE std::ptrdiff_t apart() const {
    const bool forward = direction == WinogradDirection::kForward;
    return (forward ? std::ptrdiff_t(channel_blocks(shape.ic)) : 1) * 9 * 64;
  }
};

// The 3x3 kernels from eight input channels to one or two blocks of output channels, which lie
// `apart` floats apart, turned over and with the two exchanged: [3][3][8 in][16 out].
template <class V>
SUREFIT_INLINE void turn_kernels(const float* w, std::ptrdiff_t apart, float* turned) {
  for (int k = 0; k < 9; ++k) {
    V rows[8];
    load_transposed(w + (8 - k) * 64, apart, rows);
    unroll<8>([&](auto i) SUREFIT_LAMBDA { store_vector(turned + k * 128 + i * 16, rows[i]); });
  }
}

// From eight input channels to the sixteen output channels of a group: [36][8][16], `element`
// floats from one element to the next. Both blocks at once or one after the other: they share cache
// lines. `turned` has room for kWinogradTurnedFloats.
SUREFIT_INLINE void transform_kernels(const KernelBlocks& blocks, const WinogradPlane& p, int group,
                                      int in_block, float* turned, float* u,
                                      std::ptrdiff_t element) {
  const int end = at_most(group * 2 + 2, p.co8 / 8);
  for_blocks(group * 2, end, [&](auto v, int out_block) SUREFIT_LAMBDA {
    using V = decltype(v);
    const float* w = blocks.at(in_block, out_block);
    float* to = u + out_block % 2 * 8;
    if (blocks.direction == WinogradDirection::kForward) {
      for (int i = 0; i < 8; ++i)
        transform_kernel<V>(w + i * 8, blocks.apart(), 64, to + i * 16, element);
    } else {
      turn_kernels<V>(w, blocks.apart(), turned);
      for (int i = 0; i < 8; ++i)
        transform_kernel<V>(turned + i * 16, 8, 128, to + i * 16, element);
    }
  });
  if (end == group * 2 + 2) return;
  for (int e = 0; e < 36; ++e) {
    for (int i = 0; i < 8; ++i) store(u + e * element + i * 16 + 8, V8{});
  }
}

}  // namespace surefit::kernels::SUREFIT_ISA
