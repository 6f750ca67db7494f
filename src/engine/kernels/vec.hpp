// SPDX-License-Identifier: Apache-2.0
// Eight floats, the channel block of nChw8c. A compiler vector type: one AVX register where there
// is one, two SSE registers elsewhere, from the same source.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __F16C__
#include <immintrin.h>
#endif

#define SUREFIT_INLINE inline __attribute__((always_inline))

namespace surefit::kernels::SUREFIT_ISA {

inline constexpr int kBlock = 8;

using V8 = float __attribute__((vector_size(32)));
using I8 = std::int32_t __attribute__((vector_size(32)));

SUREFIT_INLINE V8 load(const float* p) {
  V8 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
SUREFIT_INLINE void store(float* p, V8 v) {
  std::memcpy(p, &v, sizeof v);
}
SUREFIT_INLINE V8 splat(float x) {
  return V8{x, x, x, x, x, x, x, x};
}
SUREFIT_INLINE V8 max(V8 a, V8 b) {
  return a > b ? a : b;
}
SUREFIT_INLINE V8 min(V8 a, V8 b) {
  return a < b ? a : b;
}

}  // namespace surefit::kernels::SUREFIT_ISA
