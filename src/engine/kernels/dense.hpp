// SPDX-License-Identifier: Apache-2.0
// Fully connected layer: y[n][oc] = sum_k x[n][k] W[k][oc] + b[oc].
//
// Packed weights, a fixed rule on shape:
//   outputs <= kDenseRowsMax: rows [ceil(K/8)][OC][8], vectors along k, nothing wasted on padded
//   outputs; otherwise: panels [ceil(OC/16)][K][16], vectors along outputs, weights stream once.
// Padding is zero and stays zero (its gradient is zero).
//
// Sum orders, fixed by shape: forward of a row layout: eight chains (k mod 8, k increasing), then a
// fixed tree; of panels: one chain, k increasing. backward_data: one chain, oc increasing.
// backward_weights and bias: one chain, samples increasing, continued from what is stored unless
// `first`.
#pragma once

#include <cstdint>

#include "engine/kernels/optimizers.hpp"

namespace surefit::kernels {

inline constexpr int kDenseRowsMax = 16;
inline constexpr int kDensePanel = 16;
inline constexpr int kDenseFewSamples = 16;

struct DenseShape {
  std::int64_t inputs = 0;   // K
  std::int64_t outputs = 0;  // OC
};

// Units of [unit_begin, unit_end): panels of 16 outputs; a row layout is one unit.
constexpr std::int64_t dense_units(DenseShape s) {
  return s.outputs <= kDenseRowsMax ? 1 : (s.outputs + kDensePanel - 1) / kDensePanel;
}
constexpr std::int64_t dense_weight_count(DenseShape s) {
  return s.outputs <= kDenseRowsMax ? s.outputs * ((s.inputs + 7) / 8 * 8)
                                    : dense_units(s) * s.inputs * kDensePanel;
}

struct DenseForwardArgs {
  DenseShape shape;
  const float* src = nullptr;  // row of sample n: src + n * src_stride
  std::int64_t src_stride = 0;
  const float* weights = nullptr;  // packed
  const float* bias = nullptr;     // [OC] or null
  float* dst = nullptr;
  std::int64_t dst_stride = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
  std::int64_t unit_begin = 0, unit_end = 0;
  bool relu = false;
};

// Where forward is cut along its inputs: y[n] = b + the sums of the parts, in their order.
struct DenseAddPartsArgs {
  std::int64_t outputs = 0, parts = 0;
  const float* sums = nullptr;  // [parts][OC] of sample n: sums + n * sums_stride
  std::int64_t sums_stride = 0;
  const float* bias = nullptr;  // or null
  float* dst = nullptr;
  std::int64_t dst_stride = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
  bool relu = false;
};

struct DenseBackwardDataArgs {
  DenseShape shape;
  const float* diff_dst = nullptr;
  std::int64_t diff_dst_stride = 0;
  const float* weights = nullptr;
  float* diff_src = nullptr;  // overwritten
  std::int64_t diff_src_stride = 0;
  std::int64_t sample_begin = 0, sample_end = 0;
  std::int64_t k_begin = 0, k_end = 0;  // multiples of 8, or K
};

struct DenseBackwardWeightsArgs {
  DenseShape shape;
  const float* src = nullptr;
  std::int64_t src_stride = 0;
  const float* diff_dst = nullptr;
  std::int64_t diff_dst_stride = 0;
  float* diff_weights = nullptr;                  // packed
  std::int64_t sample_begin = 0, sample_end = 0;  // one sample at least
  std::int64_t k_begin = 0, k_end = 0;            // multiples of 8, or K
  std::int64_t unit_begin = 0, unit_end = 0;
  bool first = true;       // overwrite instead of add
  bool read_soon = false;  // diff_weights is better left in cache, however large the layer is
};

struct DenseBackwardBiasArgs {
  DenseShape shape;
  const float* diff_dst = nullptr;
  std::int64_t diff_dst_stride = 0;
  float* diff_bias = nullptr;  // [OC]
  std::int64_t sample_begin = 0, sample_end = 0;
  bool first = true;
};

// Backward-data, the gradient of the weights and their update, with the bits of these three one
// after the other. `Rule` is AdamArgs or SgdArgs.
template <typename Rule>
struct DenseBackwardUpdateArgs {
  DenseBackwardDataArgs data;  // kDenseFewSamples at most, all of the batch
  const float* src = nullptr;  // may be where data.diff_src is
  std::int64_t src_stride = 0;
  // Weights and their state from data.weights on, without v_max, grad_scale 1. Gradient and count
  // are not read.
  Rule update;
};

struct DenseKernels {
  void (*forward)(const DenseForwardArgs&) = nullptr;
  void (*add_parts)(const DenseAddPartsArgs&) = nullptr;
  void (*backward_data)(const DenseBackwardDataArgs&) = nullptr;
  void (*backward_weights)(const DenseBackwardWeightsArgs&) = nullptr;
  void (*backward_bias)(const DenseBackwardBiasArgs&) = nullptr;
  // Row k of Keras's kernel [K][OC], into the packed array and out of it. Padding is not touched.
  void (*pack_row)(DenseShape shape, std::int64_t k, const float* row, float* packed) = nullptr;
  void (*unpack_row)(DenseShape shape, std::int64_t k, const float* packed, float* row) = nullptr;
  // Null where one after the other is as fast: registers of sixteen floats are wanted.
  void (*backward_adam)(const DenseBackwardUpdateArgs<AdamArgs>&) = nullptr;
  void (*backward_sgd)(const DenseBackwardUpdateArgs<SgdArgs>&) = nullptr;
};

}  // namespace surefit::kernels
