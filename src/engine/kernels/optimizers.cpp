// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/optimizers.hpp"

#include "engine/kernels/optimizer_update.hpp"
#include "engine/kernels/table.hpp"

namespace surefit::kernels::SUREFIT_ISA {
namespace {

// Fused by name, as in AdamRule.
void sgd(const SgdArgs& a) {
  if (a.velocity == nullptr) {
    update(a.count, a.grad_scale, a.gradient, SgdRule(a), a.weights);
  } else {
    update(a.count, a.grad_scale, a.gradient, MomentumRule(a), a.weights, a.velocity);
  }
}

void adam(const AdamArgs& a) {
  const AdamRule rule(a);
  if (a.v_max == nullptr) {
    update(a.count, a.grad_scale, a.gradient, rule, a.weights, a.m, a.v);
    return;
  }
  update(
      a.count, a.grad_scale, a.gradient,
      [=](auto g, auto& w, auto& m, auto& v, auto& top) __attribute__((always_inline)) {
        rule.moments(g, w, m, v);
        top = v <= top ? top : v;
        rule.step(w, m, top);
      },
      a.weights, a.m, a.v, a.v_max);
}

}  // namespace

void fill_optimizers(KernelTable& table) {
  table.optimizers.sgd = sgd;
  table.optimizers.adam = adam;
}

}  // namespace surefit::kernels::SUREFIT_ISA
