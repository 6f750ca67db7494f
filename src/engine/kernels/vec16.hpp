// SPDX-License-Identifier: Apache-2.0
// Sixteen floats, a group of output channels in Winograd's products: one AVX-512 register, or two
// of eight floats. Either way every float is multiplied and added by itself, so the bits are the
// same.
#pragma once

#include "engine/kernels/unroll.hpp"

namespace surefit::kernels::SUREFIT_ISA {

// A product's tile: so many rows by so many groups of sixteen columns, whose sums stay in registers.
// Two groups where there is room: a row's float is then fetched once for two multiply-adds, which
// two loads a cycle could not feed otherwise.
inline constexpr int kProductTile = kRegisters == 32 ? 12 : 6;
inline constexpr int kProductGroups = kRegisters == 32 ? 2 : 1;

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
SUREFIT_INLINE V16 splat16(float x) {
  return reinterpret_cast<V16>(_mm512_set1_ps(x));
}
SUREFIT_INLINE void multiply_add(V16& sum, V16 x, V16 y) {
  sum += x * y;
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
SUREFIT_INLINE V16 splat16(float x) {
  const V8 v = splat(x);
  return {v, v};
}
SUREFIT_INLINE void multiply_add(V16& sum, V16 x, V16 y) {
  sum.low += x.low * y.low;
  sum.high += x.high * y.high;
}
SUREFIT_INLINE V16 hold(V16 v) {
  return {hold(v.low), hold(v.high)};
}
#endif

}  // namespace surefit::kernels::SUREFIT_ISA
