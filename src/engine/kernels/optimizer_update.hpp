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
  template <class V>
  SUREFIT_INLINE void operator()(V g, V& w, V& m, V& v) const {
    moments(g, w, m, v);
    step(w, m, v);
  }
  float keep1, keep2, alpha, eps, decay;
};

// SGD without momentum.
struct SgdRule {
  explicit SgdRule(const SgdArgs& a) : lr(a.lr), decay(a.weight_decay * a.lr) {}
  template <class V>
  SUREFIT_INLINE void operator()(V g, V& w) const {
    w = fused(-lr, g, fused(-decay, w, w));
  }
  float lr, decay;
};

// SGD with momentum, whose velocity is v.
struct MomentumRule {
  explicit MomentumRule(const SgdArgs& a)
      : lr(a.lr), momentum(a.momentum), decay(a.weight_decay * a.lr), nesterov(a.nesterov) {}
  template <class V>
  SUREFIT_INLINE void operator()(V g, V& w, V& v) const {
    const V step = g * lr;
    v = fused(momentum, v, -step);
    w = fused(-decay, w, w) + (nesterov ? fused(momentum, v, -step) : v);
  }
  float lr, momentum, decay;
  bool nesterov;
};

// Runs step(gradient, state&...) over arrays updated in place, sixteen elements at a time where
// that is one register, then eight; tails through the same code.
template <class F, class... State>
SUREFIT_INLINE void update(std::int64_t n, float grad_scale, const float* gradient, F step,
                           State*... state) {
  std::int64_t i = 0;
  const auto at = [&](auto get, auto put) __attribute__((always_inline)) {
    const auto g = get(gradient + i) * grad_scale;
    const auto run = [&](auto... values) __attribute__((always_inline)) {
      step(g, values...);
      (put(state + i, values), ...);
    };
    run(get(state + i)...);
  };
  const auto whole = [&](auto vector) __attribute__((always_inline)) {
    using V = decltype(vector);
    constexpr std::int64_t width = sizeof(V) / sizeof(float);
    for (; i + width <= n; i += width) {
      at(
          [](const float* p) __attribute__((always_inline)) { return load_vector<V>(p); },
          [](float* p, V v) __attribute__((always_inline)) { store_vector(p, v); });
    }
  };
  if constexpr (kWide) whole(V16{});
  whole(V8{});
  if (i < n) {
    const std::int64_t lanes = n - i;
    at(
        [=](const float* p) __attribute__((always_inline)) { return load_lanes(p, lanes); }, [=
    ](float* p, V8 v) __attribute__((always_inline)) { store_lanes(p, v, lanes); });
  }
}

}  // namespace surefit::kernels::SUREFIT_ISA
