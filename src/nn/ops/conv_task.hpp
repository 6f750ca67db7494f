// SPDX-License-Identifier: Apache-2.0
// From a task of the executable to the arguments of the convolution kernels, which name their
// operands alike.
#pragma once

#include <algorithm>

#include "engine/kernels/conv_shape.hpp"
#include "nn/ops/kernel.hpp"

namespace surefit {

inline std::size_t bias_count(const kernels::ConvShape& s) {
  return static_cast<std::size_t>(kernels::round_up(s.oc, 8));
}
inline ValueType float_vector(std::size_t count) {
  return vector_type(static_cast<std::int64_t>(count));
}
inline kernels::Samples samples(const Task& task) {
  return {0, static_cast<int>(task.end - task.begin)};
}
inline float* scratch_of(const Task& task) {
  return reinterpret_cast<float*>(task.thread_scratch);
}

// Samples whose pictures and gradients stay in cache while all blocks of the weights read them.
inline int samples_in_cache(const kernels::ConvShape& s) {
  constexpr std::size_t kCacheBytes = 2 << 20;
  const std::size_t bytes = sizeof(float) * (kernels::blocked_floats(s.ic, s.h, s.w) +
                                             kernels::blocked_floats(s.oc, s.oh, s.ow));
  return static_cast<int>(std::max<std::size_t>(kCacheBytes / bytes, 1));
}

// Inputs: picture, weights. The bias is the caller's.
template <typename Args>
Args forward_args(const kernels::ConvShape& shape, const Task& task) {
  Args args;
  args.shape = shape;
  args.src = task.inputs[0].at(task.begin);
  args.src_stride = float_stride(task.inputs[0]);
  args.weights = task.inputs[1].at();
  args.dst = task.outputs[0].at(task.begin);
  args.dst_stride = float_stride(task.outputs[0]);
  return args;
}

// Inputs: gradient of the output, prepared weights.
inline kernels::ConvBackwardData backward_data_args(const kernels::ConvShape& shape,
                                                    const Task& task) {
  kernels::ConvBackwardData args;
  args.shape = shape;
  args.diff_dst = task.inputs[0].at(task.begin);
  args.diff_dst_stride = float_stride(task.inputs[0]);
  args.weights = task.inputs[1].at();
  args.diff_src = task.outputs[0].at(task.begin);
  args.diff_src_stride = float_stride(task.outputs[0]);
  return args;
}

// Inputs: picture, gradient of the output. Where the gradient goes is the caller's.
template <typename Args>
Args backward_weights_args(const kernels::ConvShape& shape, const Task& task) {
  Args args;
  args.shape = shape;
  args.src = task.inputs[0].at(task.begin);
  args.src_stride = float_stride(task.inputs[0]);
  args.diff_dst = task.inputs[1].at(task.begin);
  args.diff_dst_stride = float_stride(task.inputs[1]);
  if constexpr (requires { args.first; }) args.first = task.begin == 0;
  return args;
}

}  // namespace surefit
