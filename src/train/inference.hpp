// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "surefit/model.hpp"

namespace surefit {

// Loss and metrics of `batches` without training.
Logs evaluate_model(Model::Impl& model, const Dataset& batches, const FitOptions& options);
// Predictions for every sample, in order.
Tensor count_confusions(Model::Impl& model, const Dataset& batches, const FitOptions& options);
std::vector<Tensor> predict_model(Model::Impl& model, const Dataset& batches,
                                  const FitOptions& options);

}  // namespace surefit
