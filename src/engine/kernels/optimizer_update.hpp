// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/kernels/optimizers.hpp"
#include "engine/kernels/vec16.hpp"
#include "engine/kernels/vec_math.hpp"

namespace surefit::kernels::SUREFIT_ISA {

// Adam without amsgrad, of eight or sixteen weights.
struct AdamRule {
  explicit AdamRule(const AdamArgs& a)
      : keep1(1.0f - a.beta1),
        keep2(1.0f - a.beta2),
        alpha(a.alpha),
        eps(a.epsilon),
        decay(a.weight_decay * a.lr) {}
  // Fused by name: left to the compiler, the bits would depend on where this is inlined.
  template <class V>
  SUREFIT_INLINE void moments(V g, V& w, V& m, V& v) const {
    w = fused(-decay, w, w);
    m = fused(keep1, g - m, m);
    v = fused(keep2, fused(g, g, -v), v);
  }
  template <class V>
  SUREFIT_INLINE void step(V& w, V m, V v) const {
    w -= m * alpha / (sqrt(v) + eps);
  }
  float keep1, keep2, alpha, eps, decay;
};

// Runs step(V8&...) over arrays updated in place, the gradient first; tails through the same code.
template <class F, class... State>
SUREFIT_INLINE void update(std::int64_t n, float grad_scale, const float* gradient, F step,
                           State*... state) {
  const auto at = [&](std::int64_t i, auto get, auto put) __attribute__((always_inline)) {
    const V8 g = get(gradient + i) * grad_scale;
    const auto run = [&](auto... values) __attribute__((always_inline)) {
      step(g, values...);
      (put(state + i, values), ...);
    };
    run(get(state + i)...);
  };
  std::int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    at(
        i, [](const float* p) __attribute__((always_inline)) { return load(p); },
        [](float* p, V8 v) __attribute__((always_inline)) { store(p, v); });
  }
  if (i < n) {
    const std::int64_t lanes = n - i;
    at(
        i, [=](const float* p) __attribute__((always_inline)) { return load_lanes(p, lanes); },
        [=](float* p, V8 v) __attribute__((always_inline)) { store_lanes(p, v, lanes); });
  }
}

}  // namespace surefit::kernels::SUREFIT_ISA
