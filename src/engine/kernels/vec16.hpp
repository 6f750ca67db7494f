// SPDX-License-Identifier: Apache-2.0
// Sixteen floats, a group of output channels in Winograd's products: one AVX-512 register, or two
// of eight floats. Either way every float is multiplied and added by itself, so the bits are the
// same.
#pragma once

#include "engine/kernels/unroll.hpp"

namespace surefit::kernels::SUREFIT_ISA {

// Most sums of sixteen that a product's tile keeps in registers.
inline constexpr int kProductTile = kRegisters == 32 ? 12 : 6;

#ifdef __AVX512F__
using V16 = float __attribute__((vector_size(64)));
SUREFIT_INLINE V16 load16(const float* p) {
  V16 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
SUREFIT_INLINE void store16(float* p, V16 v) {
  std::memcpy(p, &v, sizeof v);
}
SUREFIT_INLINE void multiply_add(V16& sum, float x, V16 y) {
  sum += reinterpret_cast<V16>(_mm512_set1_ps(x)) * y;
}
SUREFIT_INLINE V16 hold(V16 v) {
  asm("" : "+v"(v));
  return v;
}
#else
struct V16 {
  V8 low, high;
};
SUREFIT_INLINE V16 load16(const float* p) {
  return {load(p), load(p + 8)};
}
SUREFIT_INLINE void store16(float* p, V16 v) {
  store(p, v.low);
  store(p + 8, v.high);
}
SUREFIT_INLINE V16 operator+(V16 a, V16 b) {
  return {a.low + b.low, a.high + b.high};
}
SUREFIT_INLINE void multiply_add(V16& sum, float x, V16 y) {
  const V8 xv = splat(x);
  sum.low += xv * y.low;
  sum.high += xv * y.high;
}
SUREFIT_INLINE V16 hold(V16 v) {
  return {hold(v.low), hold(v.high)};
}
#endif

}  // namespace surefit::kernels::SUREFIT_ISA
