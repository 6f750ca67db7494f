// SPDX-License-Identifier: Apache-2.0
// Loops whose index is a compile-time constant. GCC keeps an accumulator array in memory when an
// ordinary loop runs over it (60 against 146 GFLOP/s measured), because it unrolls after it has
// decided what lives in registers; with constant indices from the start the array becomes named
// registers.
#pragma once

#include "engine/kernels/vec.hpp"

#define SUREFIT_LAMBDA __attribute__((always_inline))
// For micro-kernels that need all sixteen registers: inlined into direct backward-weights, GCC
// stored and reloaded loaded vectors inside the loop. Taking it out, together with local copies of
// its strides and unrolling by two, went from 65 to 82 GFLOP/s; the three were not measured apart.
// Not a rule: elsewhere inlining was as good or better.
#define SUREFIT_NOINLINE __attribute__((noinline))

namespace surefit::kernels::SUREFIT_ISA {

#ifdef __AVX512VL__
inline constexpr int kRegisters = 32;
#else
inline constexpr int kRegisters = 16;
#endif

template <int I>
struct Int {
  static constexpr int value = I;
  SUREFIT_INLINE constexpr operator int() const { return I; }
};

// f(Int<0>{}), f(Int<1>{}), ... f(Int<N - 1>{}).
template <int N, int I = 0, class F>
SUREFIT_INLINE void unroll(F&& f) {
  if constexpr (I < N) {
    f(Int<I>{});
    unroll<N, I + 1>(f);
  }
}

// Keeps a loaded vector in a register: GCC otherwise folds the same load into every FMA that uses
// it.
SUREFIT_INLINE V8 in_register(V8 v) {
#ifdef __AVX__
  asm("" : "+x"(v));
#endif
  return v;
}

#ifdef __AVX512F__
using V16 = float __attribute__((vector_size(64)));
inline constexpr int kRows = 12;
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
SUREFIT_INLINE V16 in_register(V16 v) {
  asm("" : "+v"(v));
  return v;
}
#else
struct V16 {
  V8 low, high;
};
inline constexpr int kRows = 6;
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
SUREFIT_INLINE V16 in_register(V16 v) {
  return {in_register(v.low), in_register(v.high)};
}
#endif

// Calls f(Int<n>{}) for a run-time n in [1, Max].
template <int Max, class F>
SUREFIT_INLINE void with_count(int n, F&& f) {
  if constexpr (Max > 1) {
    if (n < Max) {
      with_count<Max - 1>(n, f);
      return;
    }
  }
  f(Int<Max>{});
}

// NaN stays NaN, -0 becomes +0: the same bits whether pooling happens before or after.
SUREFIT_INLINE V8 relu(V8 v) {
  return v <= V8{} ? V8{} : v;
}

}  // namespace surefit::kernels::SUREFIT_ISA
