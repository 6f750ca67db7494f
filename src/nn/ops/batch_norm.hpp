// SPDX-License-Identifier: Apache-2.0
// Batch normalization in nodes, so that it stays exact under every schedule: partial sums per
// sample, their sum over the batch in sample order (the barrier), and a pass that applies them.
#pragma once

#include "engine/kernels/elementwise.hpp"
#include "graph/op.hpp"

namespace surefit {

// Picture -> sums and sums of squares of its channels, float64.
std::shared_ptr<const Op> make_bn_partials_op();
// Partials -> their sum over the batch.
std::shared_ptr<const Op> make_bn_sum_op();
// Sum -> mean and 1 / sqrt(variance + epsilon) of the batch; `pixels` per sample.
std::shared_ptr<const Op> make_bn_statistics_op(std::int64_t channels, std::int64_t pixels,
                                                double epsilon);
// Partials -> mean and inverse deviation of the sample's ghost batch, one row each per sample.
std::shared_ptr<const Op> make_bn_ghost_statistics_op(std::int64_t channels, std::int64_t pixels,
                                                      double epsilon, std::int64_t ghost);
// (moving mean, moving variance, sum): moves the running statistics.
std::shared_ptr<const Op> make_bn_update_op(std::int64_t channels, std::int64_t pixels,
                                            double momentum);
// (moving mean, moving variance) -> mean and 1 / sqrt(variance + epsilon), for inference.
std::shared_ptr<const Op> make_bn_moving_op(std::int64_t channels, double epsilon);

struct BnApply {
  bool scale = true, center = true;  // inputs gamma and beta are present
  bool batch_statistics =
      true;  // they depend on the picture: the gradient has the full-batch terms
  std::int64_t ghost_batch = 0;  // samples that share statistics; 0: the whole batch
  bool residual = false;
  kernels::Activation activation = kernels::Activation::kLinear;  // or kRelu, kRelu6
};
// (picture, mean, inverse deviation, [gamma], [beta], [residual]) -> picture. Absorbs an Add and a
// relu or relu6 behind it.
std::shared_ptr<const Op> make_bn_apply_op(const BnApply& options);

}  // namespace surefit
