// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/bias_sum.hpp"
#include "engine/kernels/table.hpp"

namespace surefit::kernels::SUREFIT_ISA {

namespace {

void gradient(const BiasGradient& a, Samples samples, int block) {
  bias_gradient(a, samples, block);
}

void add(const BiasAdd& a, Samples samples) {
  for (int n = samples.begin; n < samples.end; ++n) {
    for (int block = 0; block < a.blocks; ++block) {
      const V8 bias = load(a.bias + block * kBlock);
      const std::ptrdiff_t plane = std::ptrdiff_t{block} * a.pixels * kBlock;
      const float* src = a.src + n * a.src_stride + plane;
      float* dst = a.dst + n * a.dst_stride + plane;
      for (std::ptrdiff_t i = 0; i < a.pixels * kBlock; i += kBlock)
        store(dst + i, load(src + i) + bias);
    }
  }
}

}  // namespace

void fill_conv_bias(KernelTable& table) {
  table.conv_bias = {gradient, add};
}

}  // namespace surefit::kernels::SUREFIT_ISA
