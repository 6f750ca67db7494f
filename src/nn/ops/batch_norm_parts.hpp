// SPDX-License-Identifier: Apache-2.0
// What the forward and the backward nodes of batch normalization share.
#pragma once

#include "engine/kernels/table.hpp"
#include "nn/ops/batch_norm.hpp"
#include "nn/ops/kernel.hpp"

namespace surefit {

inline std::int64_t pixels_of(const ValueType& type) {
  return type.picture[0] * type.picture[1];
}
inline std::int64_t channels_of(const ValueType& type) {
  return type.picture[2];
}

inline ValueType padded_vector(std::int64_t channels) {
  return vector_type(round_up(channels, kChannelBlock));
}
inline ValueType partials_type(const ValueType& picture) {
  return vector_type(2 * round_up(channels_of(picture), kChannelBlock), DType::kFloat64, true);
}

inline OpTraits bn_pass_traits(const ValueType& picture, double flops_per_element) {
  OpTraits traits;
  traits.flops_per_sample = static_cast<double>(picture.stored_count()) * flops_per_element;
  return traits;
}

// The task's samples in runs that share their statistics: all of them, or one by one where each has
// its own.
template <typename Visit>
void for_each_run(const Task& task, const Operand& statistics, const Visit& visit) {
  if (statistics.sample_bytes == 0) return visit(task);
  for (std::int64_t n = task.begin; n < task.end; ++n) {
    Task one = task;
    one.begin = n;
    one.end = n + 1;
    visit(one);
  }
}

// What the kernels' arguments share: the extents of the picture.
template <typename Args>
Args bn_args(const ValueType& picture) {
  Args args;
  args.channels = channels_of(picture);
  args.pixels = pixels_of(picture);
  args.block_end = channel_blocks(picture);
  return args;
}

// Of the node made by make_bn_apply_op. Inputs: (picture, gradient, mean, inverse deviation,
// [output behind a relu]).
std::shared_ptr<const Op> make_bn_backward_partials_op(kernels::Activation activation);
// Sum -> means of dy and of dy xhat over the batch, and the gradients of gamma and beta.
std::shared_ptr<const Op> make_bn_backward_statistics_op(std::int64_t channels,
                                                         std::int64_t pixels);
// Partials -> means of dy and of dy xhat over the sample's ghost batch, one row each per sample.
std::shared_ptr<const Op> make_bn_ghost_backward_statistics_op(std::int64_t channels,
                                                               std::int64_t pixels,
                                                               std::int64_t ghost);
// ..., [gamma], [mean dy, mean dy xhat] -> gradient of the picture, and behind a relu that of the
// residual.
std::shared_ptr<const Op> make_bn_backward_apply_op(const BnApply& options);

}  // namespace surefit
