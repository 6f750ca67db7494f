// SPDX-License-Identifier: Apache-2.0
// Optimizer updates as Keras 3 defines them, one fused pass over flat ranges; a range may be cut
// anywhere. `grad_scale` multiplies the gradient first (clipping by global norm, loss scale);
// `weight_decay` is decoupled as in Keras: w -= w * weight_decay * lr before the update.
#pragma once

#include <cstdint>

namespace surefit::kernels {

struct SgdArgs {
  float* weights = nullptr;
  const float* gradient = nullptr;
  float* velocity = nullptr;  // null if momentum is 0
  std::int64_t count = 0;
  float lr = 0.01f;
  float momentum = 0.0f;
  bool nesterov = false;
  float weight_decay = 0.0f;
  float grad_scale = 1.0f;
};

struct AdamArgs {
  float* weights = nullptr;
  const float* gradient = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  float* v_max = nullptr;  // amsgrad if not null
  std::int64_t count = 0;
  float alpha = 0.0f;  // adam_alpha(lr, beta1, beta2, step)
  float lr = 1e-3f;    // only for weight decay
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-7f;
  float weight_decay = 0.0f;
  float grad_scale = 1.0f;
};

struct OptimizerKernels {
  // v = momentum v - lr g; w += v, or with nesterov w += momentum v - lr g.
  void (*sgd)(const SgdArgs&) = nullptr;
  // m += (g - m)(1 - b1); v += (g^2 - v)(1 - b2); w -= m alpha / (sqrt(v) + eps).
  void (*adam)(const AdamArgs&) = nullptr;
};

// lr * sqrt(1 - beta2^step) / (1 - beta1^step) in double; step counts from 1.
float adam_alpha(double lr, double beta1, double beta2, std::int64_t step);

}  // namespace surefit::kernels
