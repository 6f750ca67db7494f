// SPDX-License-Identifier: Apache-2.0
// Batch normalization on nChw8c in parts, so that it stays exact under any schedule: partial sums
// per sample and channel block in double (two chains, even and odd pixels), added over samples in
// order, then one pass to apply.
//
//   y = gamma (x - mean) inv_std + beta,  inv_std = 1 / sqrt(var + epsilon), var of the population
//   dx = gamma inv_std (dy - dbeta/N - xhat dgamma/N),  xhat = (x - mean) inv_std,  N = samples *
//   pixels
//
// gamma, beta, moving statistics are plain [C]; mean, inv_std and all partial sums are padded to
// C8.
#pragma once

#include <cstdint>

#include "engine/kernels/elementwise.hpp"

namespace surefit::kernels {

// Partial sums of sample n: partials + n * 2 * C8 doubles: [sum of C8][sum of squares of C8].
struct BatchNormStatsArgs {
  std::int64_t channels = 0, pixels = 0;
  const float* src = nullptr;
  std::int64_t src_stride = 0;
  double* partials = nullptr;
  std::int64_t sample_begin = 0, sample_end = 0;
  std::int64_t block_begin = 0, block_end = 0;
};

struct BatchNormCombineArgs {
  std::int64_t channels = 0, pixels = 0, samples = 0;
  const double* partials = nullptr;  // of samples 0..samples-1
  float epsilon = 1e-3f;
  float* mean = nullptr;     // [C8]
  float* inv_std = nullptr;  // [C8]
  // moving = moving * momentum + batch * (1 - momentum); null: not updated.
  float* moving_mean = nullptr;  // [C]
  float* moving_variance = nullptr;
  float momentum = 0.99f;
};

struct BatchNormApplyArgs {
  std::int64_t channels = 0, pixels = 0;
  const float* src = nullptr;
  std::int64_t src_stride = 0;
  const float* mean = nullptr;      // [C8]
  const float* inv_std = nullptr;   // [C8]
  const float* gamma = nullptr;     // [C], null: 1
  const float* beta = nullptr;      // [C], null: 0
  const float* residual = nullptr;  // added before the activation; null: none
  std::int64_t residual_stride = 0;
  Activation activation = Activation::kLinear;  // or kRelu, kRelu6
  float* dst = nullptr;                         // may be src or residual
  std::int64_t dst_stride = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
  std::int64_t block_begin = 0, block_end = 0;
};

// Partial sums of sample n: partials + n * 2 * C8: [dbeta of C8][dgamma of C8].
struct BatchNormBackwardStatsArgs {
  std::int64_t channels = 0, pixels = 0;
  const float* src = nullptr;  // x
  std::int64_t src_stride = 0;
  const float* diff_dst = nullptr;
  std::int64_t diff_dst_stride = 0;
  Activation activation = Activation::kLinear;  // as in the forward pass
  const float* dst = nullptr;  // y behind a fused relu: the gradient counts where that is not cut
  std::int64_t dst_stride = 0;
  const float* mean = nullptr;
  const float* inv_std = nullptr;
  double* partials = nullptr;
  std::int64_t sample_begin = 0, sample_end = 0;
  std::int64_t block_begin = 0, block_end = 0;
};

struct BatchNormBackwardCombineArgs {
  std::int64_t channels = 0, pixels = 0, samples = 0;
  const double* partials = nullptr;
  float* diff_gamma = nullptr;    // [C]
  float* diff_beta = nullptr;     // [C]
  float* mean_dy = nullptr;       // [C8] dbeta / N
  float* mean_dy_xhat = nullptr;  // [C8] dgamma / N
};

struct BatchNormBackwardApplyArgs {
  std::int64_t channels = 0, pixels = 0;
  const float* src = nullptr;
  std::int64_t src_stride = 0;
  const float* diff_dst = nullptr;
  std::int64_t diff_dst_stride = 0;
  Activation activation = Activation::kLinear;
  const float* dst = nullptr;
  std::int64_t dst_stride = 0;
  const float* mean = nullptr;
  const float* inv_std = nullptr;
  const float* gamma = nullptr;  // [C], null: 1
  const float* mean_dy =
      nullptr;  // null (both): statistics were constants (inference or frozen layer)
  const float* mean_dy_xhat = nullptr;
  float* diff_src = nullptr;  // may be diff_dst
  std::int64_t diff_src_stride = 0;
  float* diff_residual =
      nullptr;  // masked diff_dst; null: none; may be diff_dst if diff_src is not
  std::int64_t diff_residual_stride = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
  std::int64_t block_begin = 0, block_end = 0;
};

struct BatchNormKernels {
  void (*stats)(const BatchNormStatsArgs&) = nullptr;
  void (*combine)(const BatchNormCombineArgs&) = nullptr;
  // mean and inv_std [C8] from moving statistics [C].
  void (*from_moving)(std::int64_t channels, const float* moving_mean, const float* moving_variance,
                      float epsilon, float* mean, float* inv_std) = nullptr;
  void (*apply)(const BatchNormApplyArgs&) = nullptr;
  void (*backward_stats)(const BatchNormBackwardStatsArgs&) = nullptr;
  void (*backward_combine)(const BatchNormBackwardCombineArgs&) = nullptr;
  void (*backward_apply)(const BatchNormBackwardApplyArgs&) = nullptr;
};

}  // namespace surefit::kernels
