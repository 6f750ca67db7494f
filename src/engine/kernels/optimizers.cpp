// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/optimizers.hpp"

#include "engine/kernels/table.hpp"
#include "engine/kernels/vec_math.hpp"

namespace surefit::kernels::SUREFIT_ISA {
namespace {

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

void sgd(const SgdArgs& a) {
  const float lr = a.lr, momentum = a.momentum, decay = a.weight_decay * a.lr;
  if (a.velocity == nullptr) {
    update(
        a.count, a.grad_scale, a.gradient,
        [=](V8 g, V8 & w) __attribute__((always_inline)) {
          w = w - w * decay;
          w = w - g * lr;
        },
        a.weights);
  } else if (!a.nesterov) {
    update(
        a.count, a.grad_scale, a.gradient,
        [=](V8 g, V8 & w, V8 & v) __attribute__((always_inline)) {
          w = w - w * decay;
          const V8 step = g * lr;
          v = v * momentum - step;
          w += v;
        },
        a.weights, a.velocity);
  } else {
    update(
        a.count, a.grad_scale, a.gradient,
        [=](V8 g, V8 & w, V8 & v) __attribute__((always_inline)) {
          w = w - w * decay;
          const V8 step = g * lr;
          v = v * momentum - step;
          w += v * momentum - step;
        },
        a.weights, a.velocity);
  }
}

void adam(const AdamArgs& a) {
  const float keep1 = 1.0f - a.beta1, keep2 = 1.0f - a.beta2, alpha = a.alpha, eps = a.epsilon;
  const float decay = a.weight_decay * a.lr;
  if (a.v_max == nullptr) {
    update(
        a.count, a.grad_scale, a.gradient,
        [=](V8 g, V8 & w, V8 & m, V8 & v) __attribute__((always_inline)) {
          w = w - w * decay;
          m += (g - m) * keep1;
          v += (g * g - v) * keep2;
          w -= m * alpha / (sqrt(v) + eps);
        },
        a.weights, a.m, a.v);
  } else {
    update(
        a.count, a.grad_scale, a.gradient,
        [=](V8 g, V8 & w, V8 & m, V8 & v, V8 & top) __attribute__((always_inline)) {
          w = w - w * decay;
          m += (g - m) * keep1;
          v += (g * g - v) * keep2;
          top = v <= top ? top : v;
          w -= m * alpha / (sqrt(top) + eps);
        },
        a.weights, a.m, a.v, a.v_max);
  }
}

}  // namespace

void fill_optimizers(KernelTable& table) {
  table.optimizers = {sgd, adam};
}

}  // namespace surefit::kernels::SUREFIT_ISA
