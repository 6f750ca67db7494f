// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/optimizers.hpp"

#include "engine/kernels/optimizer_update.hpp"
#include "engine/kernels/table.hpp"

namespace surefit::kernels::SUREFIT_ISA {
namespace {

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
          v = madd(v, splat(momentum), -step);
          w += v;
        },
        a.weights, a.velocity);
  } else {
    update(
        a.count, a.grad_scale, a.gradient,
        [=](V8 g, V8 & w, V8 & v) __attribute__((always_inline)) {
          w = w - w * decay;
          const V8 step = g * lr;
          v = madd(v, splat(momentum), -step);
          w += madd(v, splat(momentum), -step);
        },
        a.weights, a.velocity);
  }
}

void adam(const AdamArgs& a) {
  const AdamRule rule(a);
  if (a.v_max == nullptr) {
    update(
        a.count, a.grad_scale, a.gradient,
        [=](V8 g, V8 & w, V8 & m, V8 & v) __attribute__((always_inline)) {
          rule.moments(g, w, m, v);
          rule.step(w, m, v);
        },
        a.weights, a.m, a.v);
  } else {
    update(
        a.count, a.grad_scale, a.gradient,
        [=](V8 g, V8 & w, V8 & m, V8 & v, V8 & top) __attribute__((always_inline)) {
          rule.moments(g, w, m, v);
          top = v <= top ? top : v;
          rule.step(w, m, top);
        },
        a.weights, a.m, a.v, a.v_max);
  }
}

}  // namespace

void fill_optimizers(KernelTable& table) {
  table.optimizers = {sgd, adam};
}

}  // namespace surefit::kernels::SUREFIT_ISA
