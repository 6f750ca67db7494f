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

}  // namespace surefit::kernels::SUREFIT_ISA
