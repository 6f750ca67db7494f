// SPDX-License-Identifier: Apache-2.0
// Runs a loss or a metric by itself on given predictions and labels.
#pragma once

#include "surefit/losses.hpp"
#include "surefit/metrics.hpp"
#include "surefit/tensor.hpp"

namespace surefit {

struct LossResult {
  std::vector<double> loss;  // per sample
  Tensor gradient;           // of the batch's mean
};

struct LossRun {
  bool through_softmax =
      false;  // the prediction handed to the loss is softmax(given); the gradient is of the given
  std::int64_t batch = 0;  // of the plan; 0: as many as there are samples
  std::int64_t group = 0;
  int threads = 1;
};

LossResult run_loss(const Loss& loss, const Tensor& prediction, const Tensor& labels,
                    const LossRun& run = {});
double run_metric(const Metric& metric, const Loss& loss, const Tensor& prediction,
                  const Tensor& labels, bool through_softmax = false);

}  // namespace surefit
