// SPDX-License-Identifier: Apache-2.0
// Arithmetic of users' own training steps.
#pragma once

#include <functional>

#include "nn/loss.hpp"

namespace surefit {

using Scalar = std::function<float(float)>;

// function(x) for each element; slope(x) is its derivative.
std::shared_ptr<const Op> make_map_op(const ValueType& type, Scalar function, Scalar slope);
// The mean of a sample's elements as a loss.
LossNodes add_mean_loss(Graph& graph, ValueId value);

}  // namespace surefit
