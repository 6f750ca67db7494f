// SPDX-License-Identifier: Apache-2.0
// Bias of a blocked activation where no kernel adds it by the way, and its gradient: per channel
// the sum over pixels, sample by sample in order.
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

// y = x + bias per channel; y may be x.
struct BiasAdd {
  std::ptrdiff_t pixels = 0;
  int blocks = 0;  // of eight channels
  const float* src = nullptr;
  std::ptrdiff_t src_stride = 0;
  const float* bias = nullptr;  // padded with zeros to whole blocks
  float* dst = nullptr;
  std::ptrdiff_t dst_stride = 0;
};

struct BiasKernels {
  // block: one block of eight channels.
  void (*gradient)(const BiasGradient&, Samples, int block) = nullptr;
  void (*add)(const BiasAdd&, Samples) = nullptr;
};

}  // namespace surefit::kernels
