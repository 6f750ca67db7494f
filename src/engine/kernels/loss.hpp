// SPDX-License-Identifier: Apache-2.0
// Softmax and cross-entropy over plain rows of C floats. Losses are doubles per sample, so that a
// mean over any number of samples is added up by the caller in sample order. Sums over a row: eight
// double chains (c mod 8), fixed tree.
#pragma once

#include <cstdint>

namespace surefit::kernels {

// Targets are `labels` (one int32 per sample) or, if that is null, `targets` (rows of C floats,
// one-hot or soft). A label outside [0, C) gives a NaN loss and a NaN gradient row: visible, never
// out of bounds.
struct CrossEntropyArgs {
  const float* src = nullptr;  // logits, or probabilities for the *_probabilities kernels
  std::int64_t src_stride = 0;
  const std::int32_t* labels = nullptr;
  const float* targets = nullptr;
  std::int64_t targets_stride = 0;
  const float* weights = nullptr;  // per sample factor of the gradient (not of the loss); null is 1
  float weight = 1.0f;             // common factor of the gradient, usually 1 / batch
  double* loss = nullptr;          // per sample, or null
  float* diff_src = nullptr;       // or null; may be src
  std::int64_t diff_src_stride = 0;
  std::int64_t classes = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
};

struct SoftmaxArgs {
  const float* src = nullptr;
  std::int64_t src_stride = 0;
  float* dst = nullptr;  // may be src
  std::int64_t dst_stride = 0;
  std::int64_t classes = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
};

struct SoftmaxBackwardArgs {
  const float* dst = nullptr;  // output of softmax
  std::int64_t dst_stride = 0;
  const float* diff_dst = nullptr;
  std::int64_t diff_dst_stride = 0;
  float* diff_src = nullptr;  // may be diff_dst
  std::int64_t diff_src_stride = 0;
  std::int64_t classes = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
};

struct LossKernels {
  // p = softmax(x); loss = sum_c t_c (log sum_j e^x_j - x_c); gradient (p sum_c t_c - t) * weight *
  // weights[n].
  void (*softmax_cross_entropy)(const CrossEntropyArgs&) = nullptr;
  // Keras's categorical_crossentropy on probabilities: q = clip(p / sum p, 1e-7, 1 - 1e-7), loss =
  // -sum_c t_c log q_c.
  void (*cross_entropy_probabilities)(const CrossEntropyArgs&) = nullptr;
  void (*softmax)(const SoftmaxArgs&) = nullptr;
  // dx = y (dy - sum_c dy_c y_c)
  void (*softmax_backward)(const SoftmaxBackwardArgs&) = nullptr;
};

}  // namespace surefit::kernels
