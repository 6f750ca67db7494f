// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "surefit/optimizers.hpp"
#include "surefit/tensor.hpp"

#include "engine/packing.hpp"

namespace surefit {

struct OptimizerRun {
  double learning_rate = 0;  // 0: the optimizer's own
  double loss_scale = 1;
  int threads = 1;
  std::shared_ptr<const Packing> packing = {};  // of the weights
};

// The weights after each step on the given gradients, through the optimizer's own update node in a
// planned graph.
std::vector<Tensor> run_optimizer(const Optimizer& optimizer, const Tensor& weights,
                                  const std::vector<Tensor>& gradients,
                                  const OptimizerRun& run = {});

}  // namespace surefit
