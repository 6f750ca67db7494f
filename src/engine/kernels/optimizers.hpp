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

struct RmspropArgs {
  float* weights = nullptr;
  const float* gradient = nullptr;
  float* square = nullptr;           // moving mean of g^2
  float* mean = nullptr;             // moving mean of g; centered if not null
  float* momentum_buffer = nullptr;  // with momentum > 0
  std::int64_t count = 0;
  float lr = 1e-3f, rho = 0.9f, momentum = 0.0f, epsilon = 1e-7f;
  float weight_decay = 0.0f;
  float grad_scale = 1.0f;
};

struct AdagradArgs {
  float* weights = nullptr;
  const float* gradient = nullptr;
  float* accumulator = nullptr;
  std::int64_t count = 0;
  float lr = 1e-3f, epsilon = 1e-7f;
  float weight_decay = 0.0f;
  float grad_scale = 1.0f;
};

struct AdadeltaArgs {
  float* weights = nullptr;
  const float* gradient = nullptr;
  float* square_gradient = nullptr;
  float* square_delta = nullptr;
  std::int64_t count = 0;
  float lr = 1e-3f, rho = 0.95f, epsilon = 1e-7f;
  float weight_decay = 0.0f;
  float grad_scale = 1.0f;
};

// Per-step factors of Nadam with Keras's momentum schedule u_t = beta1 (1 - 0.96^t / 2).
struct NadamTerms {
  float m = 0.0f;  // u_{t+1} / (1 - prod_{i<=t+1} u_i)
  float g = 0.0f;  // (1 - u_t) / (1 - prod_{i<=t} u_i)
  float v = 0.0f;  // 1 / (1 - beta2^t)
};

struct NadamArgs {
  float* weights = nullptr;
  const float* gradient = nullptr;
  float* m = nullptr;
  float* v = nullptr;
  std::int64_t count = 0;
  NadamTerms terms;  // nadam_terms(beta1, beta2, step)
  float lr = 1e-3f, beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-7f;
  float weight_decay = 0.0f;
  float grad_scale = 1.0f;
};

struct LionArgs {
  float* weights = nullptr;
  const float* gradient = nullptr;
  float* m = nullptr;
  std::int64_t count = 0;
  float lr = 1e-3f, beta1 = 0.9f, beta2 = 0.99f;
  float weight_decay = 0.0f;
  float grad_scale = 1.0f;
};

// Chunk of square_sums: fixed, so that any split over chunks adds up in the same order.
inline constexpr std::int64_t kSquareChunk = 4096;

struct OptimizerKernels {
  // v = momentum v - lr g; w += v, or with nesterov w += momentum v - lr g.
  void (*sgd)(const SgdArgs&) = nullptr;
  // m += (g - m)(1 - b1); v += (g^2 - v)(1 - b2); w -= m alpha / (sqrt(v) + eps).
  void (*adam)(const AdamArgs&) = nullptr;
  // s = rho s + (1 - rho) g^2; step = lr g / sqrt(s [- mean^2] + eps); with momentum b = momentum b
  // + step; w -= b.
  void (*rmsprop)(const RmspropArgs&) = nullptr;
  // a += g^2; w -= lr g / sqrt(a + eps).
  void (*adagrad)(const AdagradArgs&) = nullptr;
  // d = -g sqrt(sd + eps) / sqrt(sg + eps); w += lr d.
  void (*adadelta)(const AdadeltaArgs&) = nullptr;
  // w -= lr (terms.m m + terms.g g) / (sqrt(terms.v v) + eps).
  void (*nadam)(const NadamArgs&) = nullptr;
  // w -= lr sign(b1 m + (1 - b1) g); m = b2 m + (1 - b2) g.
  void (*lion)(const LionArgs&) = nullptr;
  // The parts of Adafactor for one row of a matrix: g = scale gradient.
  // columns[i] += g[i]^2 + epsilon; returns the sum of these, in an order fixed by `count`.
  double (*row_squares)(const float* gradient, float scale, double epsilon, std::int64_t count,
                        double* columns) = nullptr;
  // Sum of (row columns[i] g[i])^2.
  double (*row_norm)(const float* gradient, float scale, double row, const double* columns,
                     std::int64_t count) = nullptr;
  // w[i] -= row columns[i] g[i].
  void (*row_step)(float* weights, const float* gradient, float scale, double row,
                   const double* columns, std::int64_t count) = nullptr;
  // sums[i] = sum of squares of chunk i of kSquareChunk floats, for chunks [chunk_begin,
  // chunk_end); the caller adds them in order (clipping by norm).
  void (*square_sums)(const float* x, std::int64_t count, std::int64_t chunk_begin,
                      std::int64_t chunk_end, double* sums) = nullptr;
};

// lr * sqrt(1 - beta2^step) / (1 - beta1^step) in double; step counts from 1.
float adam_alpha(double lr, double beta1, double beta2, std::int64_t step);
NadamTerms nadam_terms(double beta1, double beta2, std::int64_t step);
// step^exponent; step counts from 1.
double power_of_step(std::int64_t step, double exponent);

}  // namespace surefit::kernels
