// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/op.hpp"
#include "surefit/optimizers.hpp"

namespace surefit {

// An optimizer names its slots and emits one update per parameter; planner and checkpoints treat slots alike.
class OptimizerImpl {
 public:
  virtual ~OptimizerImpl() = default;
  virtual double learning_rate() const = 0;
  // Slots of the parameter's own size, zero at the start.
  virtual std::vector<std::string> slots() const = 0;
  // The update node: inputs (parameter, gradient, slots...), no outputs; overwrites parameter and slots. Reads the
  // step and the current learning rate from the StepContext.
  virtual std::shared_ptr<const Op> update_op() const = 0;
};

}  // namespace surefit
