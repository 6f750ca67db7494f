// SPDX-License-Identifier: Apache-2.0
// Per-step scalars of the optimizers, the same on every instruction set.
#include <algorithm>
#include <array>

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

// By the area tangent's series, which needs no library whose bits depend on the machine.
double natural_log(double x) {
  int exponent = 0;
  for (; x >= 1.4; x *= 0.5) ++exponent;
  const double s = (x - 1.0) / (x + 1.0);  // at most 1/6
  double power = s, sum = 0.0;
  for (int k = 1; k < 30; k += 2, power *= s * s) sum += power / k;
  constexpr double kLog2 = 0.69314718055994530942;
  return 2.0 * sum + exponent * kLog2;
}

// By its series at x / 1024, squared ten times.
double exponential(double x) {
  double term = 1.0, sum = 1.0;
  for (int k = 1; k < 12; ++k) sum += term *= x / 1024.0 / k;
  for (int k = 0; k < 10; ++k) sum *= sum;
  return sum;
}

}  // namespace

double power_of_step(std::int64_t step, double exponent) {
  return exponential(exponent * natural_log(static_cast<double>(step)));
}

// All tasks of a step ask for the same, and it takes as long as updating 300 weights.
float adam_alpha(double lr, double beta1, double beta2, std::int64_t step) {
  struct Last {
    double lr = 0, beta1 = 0, beta2 = 0;
    std::int64_t step = 0;  // none: steps count from 1
    float alpha = 0;
  };
  thread_local Last last;
  if (last.step != step || last.lr != lr || last.beta1 != beta1 || last.beta2 != beta2) {
    last = {lr, beta1, beta2, step,
            static_cast<float>(lr * __builtin_sqrt(1.0 - power(beta2, step)) /
                               (1.0 - power(beta1, step)))};
  }
  return last.alpha;
}

// u(t) = beta1 (1 - 0.96^t / 2), and the product of all u up to `step`: beta1^step times a product
// whose factors are 1 from t = 1024 on.
NadamTerms nadam_terms(double beta1, double beta2, std::int64_t step) {
  static const std::array<double, 1025> warm_up = [] {
    std::array<double, 1025> products{};
    products[0] = 1.0;
    for (std::size_t t = 1; t < products.size(); ++t)
      products[t] = products[t - 1] * (1.0 - 0.5 * power(0.96, static_cast<std::int64_t>(t)));
    return products;
  }();
  const auto u = [&](std::int64_t t) { return beta1 * (1.0 - 0.5 * power(0.96, t)); };
  const double product =
      power(beta1, step) * warm_up[static_cast<std::size_t>(std::min<std::int64_t>(step, 1024))];
  const double next = u(step + 1);
  return {static_cast<float>(next / (1.0 - product * next)),
          static_cast<float>((1.0 - u(step)) / (1.0 - product)),
          static_cast<float>(1.0 / (1.0 - power(beta2, step)))};
}

}  // namespace surefit::kernels
