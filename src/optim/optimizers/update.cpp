// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizers/update.hpp"

#include <algorithm>
#include <cmath>

namespace surefit {
namespace {

// Elements that one task updates: about this many, the same for every task and an even number of
// tasks, so that two threads get the halves that the gradient was computed in (any cut would give
// the same bits).
constexpr std::int64_t kElementsPerTask = 6144;

std::int64_t elements_per_task(std::int64_t count) {
  const std::int64_t tasks = round_up((count + kElementsPerTask / 2) / kElementsPerTask, 2);
  return tasks == 0 ? count : round_up(div_up(count, tasks), 16);
}

struct UpdateNode {
  UpdateRule rule;
  OptimizerOptions options;
  bool factor = false;
  Constraint constraint;
  std::size_t slots() const { return rule.slots.size() + (options.average ? 1 : 0); }
};

// Elements [begin, begin + count) of a parameter; `slots` are those of the node.
UpdateRange range_of(const UpdateNode& node, const StepContext& step, float* weights,
                     std::span<const Operand> slots, std::int64_t begin, std::int64_t count,
                     const float* gradient, double factor) {
  UpdateRange range;
  range.count = count;
  range.weights = weights + begin;
  range.gradient = gradient;
  for (std::size_t slot = 0; slot < node.rule.slots.size(); ++slot)
    range.slots[slot] = slots[slot].at() + begin;
  range.step = static_cast<std::int64_t>(step.step) + 1;
  range.learning_rate = step.learning_rate;
  range.grad_scale = static_cast<float>(factor / step.loss_scale);
  range.weight_decay = static_cast<float>(node.options.weight_decay);
  return range;
}

void update_elements(const UpdateNode& node, const StepContext& step, float* weights,
                     std::span<const Operand> slots, std::int64_t begin, std::int64_t count,
                     const float* gradient, double factor) {
  const UpdateRange range = range_of(node, step, weights, slots, begin, count, gradient, factor);
  node.rule.run(range);
  if (node.constraint) node.constraint(range.weights);
  if (node.options.average) {
    average(node.options, range.step, range.weights, slots[node.rule.slots.size()].at() + begin,
            range.count);
  }
}

class ElementRule final : public ElementUpdate {
 public:
  explicit ElementRule(UpdateNode node) : node_(std::move(node)) {}
  void run(const StepContext& step, std::span<const Operand> state, std::int64_t begin,
           std::int64_t count, const float* gradient) const override {
    update_elements(node_, step, state[0].at(), state.subspan(1), begin, count, gradient, 1.0);
  }
  bool as_adam(const StepContext& step, std::span<const Operand> state,
               kernels::AdamArgs& args) const override {
    return as_args(node_.rule.as_adam, step, state, args);
  }
  bool as_sgd(const StepContext& step, std::span<const Operand> state,
              kernels::SgdArgs& args) const override {
    return as_args(node_.rule.as_sgd, step, state, args);
  }

 private:
  template <typename Args>
  bool as_args(const std::function<Args(const UpdateRange&)>& args_of, const StepContext& step,
               std::span<const Operand> state, Args& args) const {
    if (!args_of || node_.options.average) return false;
    args = args_of(range_of(node_, step, state[0].at(), state.subspan(1), 0, 0, nullptr, 1.0));
    return true;
  }

  UpdateNode node_;
};

class UpdateKernel final : public Kernel {
 public:
  UpdateKernel(UpdateNode node, std::int64_t count) : node_(std::move(node)), count_(count) {}

  void run(const Task& task) const override {
    const bool whole = static_cast<bool>(node_.constraint);
    const std::int64_t begin = whole ? 0 : task.block * per_task_;
    const std::int64_t count = whole ? count_ : std::min(count_, begin + per_task_) - begin;
    const double factor = node_.factor ? *task.inputs[2 + node_.slots()].at<double>() : 1.0;
    update_elements(node_, *task.step, task.inputs[0].at(), task.inputs.subspan(2), begin, count,
                    task.inputs[1].at() + begin, factor);
  }
  std::string implementation() const override { return "own"; }

 private:
  UpdateNode node_;
  std::int64_t count_;
  std::int64_t per_task_ = elements_per_task(count_);
};

class UpdateOp final : public Op {
 public:
  explicit UpdateOp(UpdateNode node) : node_(std::move(node)) {}
  std::string_view kind() const override { return node_.rule.kind; }
  std::shared_ptr<const ElementUpdate> element_update() const override {
    // A factor needs the whole gradient first, a constraint the whole parameter.
    if (node_.factor || node_.constraint) return nullptr;
    return std::make_shared<ElementRule>(node_);
  }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {}; }
  std::vector<int> mutated_inputs() const override {
    std::vector<int> positions = {0};
    for (std::size_t slot = 0; slot < node_.slots(); ++slot)
      positions.push_back(static_cast<int>(slot) + 2);
    return positions;
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kBatchFree;
    const auto count = static_cast<std::int64_t>(inputs[0].stored_count());
    traits.blocks =
        node_.constraint ? 1 : static_cast<int>(div_up(count, elements_per_task(count)));
    traits.flops_per_step = static_cast<double>(count) * 10;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    return std::make_unique<UpdateKernel>(node_,
                                          static_cast<std::int64_t>(inputs[0].stored_count()));
  }

 private:
  UpdateNode node_;
};

class RuleOptimizer final : public OptimizerImpl {
 public:
  RuleOptimizer(UpdateRule rule, OptimizerOptions options)
      : rule_(std::move(rule)), options_(std::move(options)) {}
  const LearningRate& learning_rate() const override { return options_.learning_rate; }
  Clipping clipping() const override { return options_.clipping; }
  std::vector<SlotSpec> slots(const Shape&) const override {
    std::vector<SlotSpec> slots;
    for (const std::string& name : rule_.slots) slots.push_back({name});
    if (options_.average) slots.push_back({std::string(kAverageSlot)});
    return slots;
  }
  bool averages_at_end() const override { return options_.averages_at_end(); }
  std::shared_ptr<const Op> update_op(const UpdateTarget& target) const override {
    return std::make_shared<UpdateOp>(
        UpdateNode{rule_, options_, target.factor, target.constraint});
  }

 private:
  UpdateRule rule_;
  OptimizerOptions options_;
};

}  // namespace

// Keras: the first step takes the weights as they are.
void average(const OptimizerOptions& options, std::int64_t step, float* weights, float* mean,
             std::int64_t count) {
  const auto keep = static_cast<float>(step == 1 ? 0.0 : options.average_momentum);
  const float take = 1 - keep;
  const bool overwrite = options.overwrite_every > 0 && step % options.overwrite_every == 0;
  for (std::int64_t i = 0; i < count; ++i) {
    mean[i] = mean[i] * keep + weights[i] * take;
    if (overwrite) weights[i] = mean[i];
  }
}

OptimizerPtr make_optimizer(const UpdateRule& rule, const OptimizerOptions& options) {
  return std::make_shared<RuleOptimizer>(rule, options);
}

}  // namespace surefit
