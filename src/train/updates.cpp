// SPDX-License-Identifier: Apache-2.0
#include "train/updates.hpp"

#include <algorithm>
#include <array>

#include "nn/ops/kernel.hpp"
#include "nn/regularizer.hpp"

namespace surefit {
namespace {

ValueType plain_type(const Shape& shape) {
  ValueType type;
  type.shape = shape;
  type.batched = false;
  return type;
}

// Several updates of the same values, one after the other. Every part reads the values and, behind
// them, what it alone brings.
class SequenceOp final : public Op {
 public:
  SequenceOp(std::shared_ptr<const Op> op, std::size_t shared, std::size_t own, std::size_t times)
      : op_(std::move(op)), shared_(shared), own_(own), times_(times) {}
  std::string_view kind() const override { return op_->kind(); }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {}; }
  std::vector<int> mutated_inputs() const override { return op_->mutated_inputs(); }
  OpTraits traits(std::span<const ValueType> inputs,
                  std::span<const ValueType> outputs) const override {
    return op_->traits(inputs.first(shared_ + own_), outputs);
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs,
                               std::span<const ValueType> outputs, int threads) const override {
    std::shared_ptr<const Kernel> kernel =
        op_->bind(inputs.first(shared_ + own_), outputs, threads);
    const std::string name = kernel->implementation();
    return make_kernel(
        name, [kernel, shared = shared_, own = own_, times = times_](const Task& task) {
          std::array<Operand, 8> operands;
          std::copy_n(task.inputs.begin(), shared, operands.begin());
          for (std::size_t i = 0; i < times; ++i) {
            std::copy_n(task.inputs.begin() + static_cast<std::ptrdiff_t>(shared + i * own), own,
                        operands.begin() + static_cast<std::ptrdiff_t>(shared));
            Task part = task;
            part.inputs = std::span<const Operand>(operands).first(shared + own);
            kernel->run(part);
          }
        });
  }

 private:
  std::shared_ptr<const Op> op_;
  std::size_t shared_, own_, times_;
};

}  // namespace

void append_state_updates(Graph& graph, const std::vector<Network::Built::Update>& updates) {
  std::vector<bool> done(updates.size(), false);
  for (std::size_t i = 0; i < updates.size(); ++i) {
    if (done[i]) continue;
    const Network::Built::Update& first = updates[i];
    const std::size_t shared = first.op->mutated_inputs().size();
    std::vector<ValueId> inputs = first.inputs;
    std::size_t times = 1;
    for (std::size_t j = i + 1; j < updates.size(); ++j) {
      const std::vector<ValueId>& more = updates[j].inputs;
      if (more.size() != first.inputs.size() ||
          !std::equal(more.begin(), more.begin() + static_cast<std::ptrdiff_t>(shared),
                      inputs.begin()))
        continue;
      inputs.insert(inputs.end(), more.begin() + static_cast<std::ptrdiff_t>(shared), more.end());
      done[j] = true;
      ++times;
    }
    std::shared_ptr<const Op> op = first.op;
    if (times > 1)
      op = std::make_shared<SequenceOp>(op, shared, first.inputs.size() - shared, times);
    graph.add(std::move(op), std::move(inputs), first.layer, Phase::kUpdate);
  }
}

ValueId append_clip_factor(Graph& graph, const Network& network,
                           std::span<const ParameterGradient> gradients, double limit) {
  std::vector<ValueId> sums;
  for (const ParameterGradient& each : gradients) {
    sums.push_back(graph.add1(make_square_sums_op(), {each.gradient},
                              network.parameters()[each.parameter].name, Phase::kUpdate,
                              Category::kScratch));
  }
  const std::string name = gradients.size() == 1 ? network.parameters()[gradients[0].parameter].name
                                                 : std::string("optimizer");
  return graph.add1(make_clip_factor_op(limit), std::move(sums), name, Phase::kUpdate,
                    Category::kScratch);
}

void append_updates(Graph& graph, const Network& network, const OptimizerImpl& optimizer,
                    const std::vector<ParameterGradient>& gradients, const SlotAdded& slot_added) {
  const Clipping clip = optimizer.clipping();
  ValueId factor = kNone;
  if (clip.global_norm > 0)
    factor = append_clip_factor(graph, network, gradients, clip.global_norm);
  for (const ParameterGradient& each : gradients) {
    const Parameter& parameter = network.parameters()[each.parameter];
    ValueId gradient = each.gradient;
    if (clip.value > 0)
      gradient = graph.add1(make_clip_value_op(clip.value), {gradient}, parameter.name,
                            Phase::kUpdate, Category::kGradients);
    if (clip.norm > 0) factor = append_clip_factor(graph, network, {&each, 1}, clip.norm);
    std::vector<ValueId> inputs = {each.value, gradient};
    const ParameterSpec& spec = parameter.spec;
    const std::vector<SlotSpec> slots = optimizer.slots(spec.shape);
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      ValueType type = graph.value(each.value).type;
      if (slots[slot].shape) type = plain_type(*slots[slot].shape);
      const ValueId id =
          graph.add_persistent(parameter.name + "/" + slots[slot].name, type, Category::kOptimizer);
      slot_added(id, each.parameter, static_cast<int>(slot));
      inputs.push_back(id);
    }
    if (factor != kNone) inputs.push_back(factor);
    UpdateTarget target{.shape = spec.shape, .packing = spec.packing, .factor = factor != kNone};
    if (spec.constraint)
      target.constraint = make_constraint(*spec.constraint, spec.shape, spec.packing.get());
    graph.add(optimizer.update_op(target), std::move(inputs), parameter.name, Phase::kUpdate);
  }
}

}  // namespace surefit
