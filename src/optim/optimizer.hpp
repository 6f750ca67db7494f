// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "surefit/optimizers.hpp"

#include "engine/packing.hpp"
#include "graph/op.hpp"

namespace surefit {

// Limits on gradients before the update; at most one is set.
struct Clipping {
  double norm = 0, global_norm = 0, value = 0;
};

// Changes a whole parameter in place behind its update.
using Constraint = std::function<void(float* parameter)>;

// State that an optimizer keeps of one parameter; zero at the start.
struct SlotSpec {
  std::string name;
  std::optional<Shape> shape = {};  // plain; none: like the parameter, packed as it is
};
// The moving mean of the weights, where there is one.
inline constexpr std::string_view kAverageSlot = "average";

// One parameter to be updated.
struct UpdateTarget {
  Shape shape = {};                             // Keras's
  std::shared_ptr<const Packing> packing = {};  // none: stored as it is
  bool factor = false;                          // the gradient has to be multiplied
  Constraint constraint = {};
};

// An optimizer names its slots and emits one update per parameter; planner and checkpoints treat
// slots alike.
class OptimizerImpl {
 public:
  virtual ~OptimizerImpl() = default;
  virtual const LearningRate& learning_rate() const = 0;
  virtual Clipping clipping() const = 0;
  virtual std::vector<SlotSpec> slots(const Shape& parameter) const = 0;
  // The moving mean of the weights replaces them at the end of fit().
  virtual bool averages_at_end() const = 0;
  // The update node: inputs (parameter, gradient, slots..., [factor of the gradient, one float64]),
  // no outputs; overwrites parameter and slots. Reads the step and the current learning rate from
  // the StepContext.
  virtual std::shared_ptr<const Op> update_op(const UpdateTarget& target) const = 0;
};

// Nodes for clipping, all without a batch.
std::shared_ptr<const Op>
make_square_sums_op();  // gradient -> sums of squares of its parts, float64
std::shared_ptr<const Op> make_clip_factor_op(
    double limit);  // sums... -> factor that keeps the norm within the limit
std::shared_ptr<const Op> make_clip_value_op(
    double limit);  // gradient -> gradient within [-limit, limit]

}  // namespace surefit
