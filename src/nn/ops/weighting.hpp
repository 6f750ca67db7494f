// SPDX-License-Identifier: Apache-2.0
// Nodes that give samples and losses their weights.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "graph/op.hpp"

namespace surefit {

using ClassWeights = std::vector<std::pair<std::int64_t, double>>;

// (value, float32 weight of the sample) -> value times weight; of any type and layout.
std::shared_ptr<const Op> make_weigh_op(const ValueType& type);
// Value times a number.
std::shared_ptr<const Op> make_scale_op(const ValueType& type, double factor);
// The sum of losses, each times its weight.
std::shared_ptr<const Op> make_weighted_sum_op(std::vector<double> weights);
// Labels -> float32 weight of their class; 1 for classes that are not listed. Labels are whole
// numbers, or scores of which the largest counts. Throws ConfigError where a sample has several.
std::shared_ptr<const Op> make_class_weight_op(const ValueType& labels, ClassWeights weights);

}  // namespace surefit
