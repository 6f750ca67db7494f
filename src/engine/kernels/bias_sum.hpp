// SPDX-License-Identifier: Apache-2.0
// The sum behind every bias gradient.
#pragma once

#include "engine/kernels/conv_bias.hpp"
#include "engine/kernels/unroll.hpp"

namespace surefit::kernels::SUREFIT_ISA {

SUREFIT_INLINE void bias_gradient(const BiasGradient& a, Samples samples, int block) {
  float* out = a.diff_bias + block * 8;
  V8 total = a.first ? V8{} : load(out);
  for (int n = samples.begin; n < samples.end; ++n) {
    const float* g = a.diff_dst + n * a.diff_dst_stride + block * a.pixels * 8;
    V8 sum[4] = {};  // four chains hide the latency of an addition
    std::ptrdiff_t p = 0;
    for (; p + 4 <= a.pixels; p += 4) {
      unroll<4>([&](auto i) SUREFIT_LAMBDA { sum[i] += load(g + (p + i) * 8); });
    }
    for (; p < a.pixels; ++p) sum[0] += load(g + p * 8);
    total += (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
  store(out, total);
}

}  // namespace surefit::kernels::SUREFIT_ISA
