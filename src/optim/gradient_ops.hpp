// SPDX-License-Identifier: Apache-2.0
// Arithmetic on gradients, all without a batch.
#pragma once

#include <memory>

#include "graph/op.hpp"

namespace surefit {

std::shared_ptr<const Op> make_scale_gradient_op(double factor);
// (gradient, factor: one float64) -> gradient times factor.
std::shared_ptr<const Op> make_multiply_gradient_op();
// (persistent sum, gradient): adds to the sum, or overwrites it while `*fresh`.
std::shared_ptr<const Op> make_add_to_sum_op(std::shared_ptr<const bool> fresh);

}  // namespace surefit
