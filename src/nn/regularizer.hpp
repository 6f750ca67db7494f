// SPDX-License-Identifier: Apache-2.0
// Penalties on parameters and constraints behind updates, as Keras names them.
#pragma once

#include <functional>
#include <memory>

#include "surefit/config.hpp"

#include "graph/op.hpp"

namespace surefit {

// l1 sum |w| + l2 sum w^2, added to the loss.
struct Penalty {
  double l1 = 0, l2 = 0;
};
Penalty penalty_of(const Object& regularizer);  // L1, L2, L1L2; throws ConfigError

// (gradient, parameter) -> gradient of the loss with the penalty.
std::shared_ptr<const Op> make_penalty_gradient_op(const Penalty& penalty);
// parameter -> its penalty, one float64.
std::shared_ptr<const Op> make_penalty_op(const Penalty& penalty);
// (loss per sample, penalties...) -> loss per sample with all of them.
std::shared_ptr<const Op> make_penalised_loss_op();

class Packing;
// A function that changes the stored parameter in place: MaxNorm, NonNeg, UnitNorm. Throws
// ConfigError.
std::function<void(float*)> make_constraint(const Object& constraint, const Shape& shape,
                                            const Packing* packing);

}  // namespace surefit
