// SPDX-License-Identifier: Apache-2.0
// Bias gradient of a blocked activation: per channel the sum over pixels, sample by sample in
// order.
#pragma once

#include "engine/kernels/conv_shape.hpp"

namespace surefit::kernels {

struct BiasGradient {
  std::ptrdiff_t pixels = 0;
  const float* diff_dst = nullptr;
  std::ptrdiff_t diff_dst_stride = 0;
  float* diff_bias = nullptr;
  bool first = true;
};

struct BiasKernels {
  // block: one block of eight channels.
  void (*gradient)(const BiasGradient&, Samples, int block) = nullptr;
};

}  // namespace surefit::kernels
