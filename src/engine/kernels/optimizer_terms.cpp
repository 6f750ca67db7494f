// SPDX-License-Identifier: Apache-2.0
// Per-step scalars of the optimizers, the same on every instruction set.
#include "engine/kernels/optimizers.hpp"

namespace surefit::kernels {
namespace {

double power(double base, std::int64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if ((exponent & 1) != 0) result *= base;
  }
  return result;
}

}  // namespace

float adam_alpha(double lr, double beta1, double beta2, std::int64_t step) {
  return static_cast<float>(lr * __builtin_sqrt(1.0 - power(beta2, step)) /
                            (1.0 - power(beta1, step)));
}

}  // namespace surefit::kernels
