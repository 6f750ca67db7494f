// SPDX-License-Identifier: Apache-2.0
// Losses that are the mean over rows (pixels) of a function of a row of classes.
#pragma once

#include <functional>

#include "nn/losses/pointwise.hpp"

namespace surefit {

// (predictions, targets, classes, slopes to fill) -> loss of the row.
using RowLoss = std::function<double(const float*, const float*, std::int64_t, double*)>;

LossPtr make_rowwise_loss(std::string_view kind, RowLoss row);

}  // namespace surefit
