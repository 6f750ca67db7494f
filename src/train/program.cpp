// SPDX-License-Identifier: Apache-2.0
#include "train/program.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/structural.hpp"
#include "nn/regularizer.hpp"

namespace surefit {

Program::Program(const Network& network, const Compiled* compiled, Purpose purpose,
                 const ConvPolicy& policy)
    : graph_(structural_ops()) {
  const bool training = purpose == Purpose::kTrain;
  const Network::Built built = network.build(graph_, training, policy);
  inputs_ = built.inputs;
  for (std::size_t i = 0; i < built.parameters.size(); ++i) {
    if (built.parameters[i] != kNone) persistents_[built.parameters[i]] = {i, kNone};
  }
  if (purpose == Purpose::kPredict) {
    for (const ValueId id : built.outputs) {
      outputs_.push_back(graph_.in_layout(id, Layout::kPlain, "output", Phase::kForward));
      graph_.keep(outputs_.back());
    }
    prune(graph_);
    fuse(graph_);
    graph_.check();
    return;
  }
  SUREFIT_CHECK(compiled != nullptr, "a program that trains or evaluates needs a compiled model");
  if (built.outputs.size() != 1) {
    throw ConfigError(
        fmt::format("[compile] one loss needs one output; got {} outputs", built.outputs.size()));
  }
  const ValueId prediction = built.outputs[0];
  label_spec_ = compiled->loss.impl().labels(graph_.value(prediction).type.shape);
  ValueType label_type;
  label_type.shape = label_spec_.shape;
  label_type.dtype = label_spec_.dtype;
  labels_ = graph_.add_input("labels", label_type);
  const LossNodes loss = compiled->loss.impl().build(graph_, prediction, labels_, training);
  loss_ = add_penalties(network, built, loss.loss);
  graph_.keep(loss_);
  if (training) graph_.keep(loss.gradient);
  for (const Metric& metric : compiled->metrics) {
    metrics_.push_back(metric.impl().build(graph_, prediction, labels_, label_spec_));
    graph_.keep(metrics_.back());
  }
  prune(graph_);
  fuse(graph_);
  if (training) {
    graph_.release(loss.gradient);
    add_backward(network, built, loss, compiled->optimizer);
  }
  graph_.check();
}

ValueId Program::add_penalties(const Network& network, const Network::Built& built, ValueId loss) {
  std::vector<ValueId> inputs = {loss};
  for (std::size_t i = 0; i < built.parameters.size(); ++i) {
    const Parameter& parameter = network.parameters()[i];
    // Keras penalises only what is trained.
    if (built.parameters[i] == kNone || !parameter.spec.regularizer || !parameter.trainable)
      continue;
    inputs.push_back(graph_.add1(make_penalty_op(penalty_of(*parameter.spec.regularizer)),
                                 {built.parameters[i]}, parameter.name, Phase::kForward,
                                 Category::kScratch));
  }
  return inputs.size() == 1
             ? loss
             : graph_.add1(make_penalised_loss_op(), inputs, "loss", Phase::kForward);
}

void Program::add_backward(const Network& network, const Network::Built& built,
                           const LossNodes& loss, const Optimizer& optimizer) {
  std::vector<ValueId> wanted;
  for (std::size_t i = 0; i < built.parameters.size(); ++i) {
    if (built.parameters[i] != kNone && network.parameters()[i].trainable)
      wanted.push_back(built.parameters[i]);
  }
  if (wanted.empty()) throw ConfigError("[compile] the model has no trainable parameters");
  auto gradients = append_backward(graph_, {{loss.root, loss.gradient}}, wanted);
  const std::vector<std::string> slots = optimizer.impl().slots();
  // In the order in which the backward pass finishes the gradients, so that early updates need no
  // reordering.
  std::vector<std::pair<NodeId, std::size_t>> order;
  for (std::size_t i = 0; i < built.parameters.size(); ++i) {
    const auto found = gradients.find(built.parameters[i]);
    if (built.parameters[i] == kNone || found == gradients.end() ||
        !network.parameters()[i].trainable)
      continue;
    order.emplace_back(graph_.value(found->second).producer, i);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [producer, index] : order) {
    const Parameter& parameter = network.parameters()[index];
    if (!parameter.spec.regularizer) continue;
    ValueId& gradient = gradients.at(built.parameters[index]);
    gradient = graph_.add1(make_penalty_gradient_op(penalty_of(*parameter.spec.regularizer)),
                           {gradient, built.parameters[index]}, parameter.name, Phase::kUpdate,
                           Category::kGradients);
  }
  const Clipping clip = optimizer.impl().clipping();
  const auto norm_parts = [&](ValueId parameter, const std::string& name) {
    return graph_.add1(make_square_sums_op(), {gradients.at(parameter)}, name, Phase::kUpdate,
                       Category::kScratch);
  };
  ValueId factor = kNone;
  if (clip.global_norm > 0) {
    std::vector<ValueId> sums;
    for (const auto& [producer, index] : order)
      sums.push_back(norm_parts(built.parameters[index], network.parameters()[index].name));
    factor = graph_.add1(make_clip_factor_op(clip.global_norm), sums, "optimizer", Phase::kUpdate,
                         Category::kScratch);
  }
  for (const auto& [producer, index] : order) {
    const ValueId parameter = built.parameters[index];
    const std::string& name = network.parameters()[index].name;
    ValueId gradient = gradients.at(parameter);
    if (clip.value > 0)
      gradient = graph_.add1(make_clip_value_op(clip.value), {gradient}, name, Phase::kUpdate,
                             Category::kGradients);
    if (clip.norm > 0) {
      factor = graph_.add1(make_clip_factor_op(clip.norm), {norm_parts(parameter, name)}, name,
                           Phase::kUpdate, Category::kScratch);
    }
    std::vector<ValueId> inputs = {parameter, gradient};
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      const ValueId id = graph_.add_persistent(name + "/" + slots[slot],
                                               graph_.value(parameter).type, Category::kOptimizer);
      persistents_[id] = {index, static_cast<int>(slot)};
      inputs.push_back(id);
    }
    if (factor != kNone) inputs.push_back(factor);
    const ParameterSpec& spec = network.parameters()[index].spec;
    Constraint constraint;
    if (spec.constraint)
      constraint = make_constraint(*spec.constraint, spec.shape, spec.packing.get());
    graph_.add(optimizer.impl().update_op(factor != kNone, constraint), std::move(inputs), name,
               Phase::kUpdate);
  }
  for (const Network::Built::Update& later : built.updates) {
    graph_.add(later.op, later.inputs, later.layer, Phase::kUpdate);
  }
}

std::byte* Program::persistent(ValueId id, const ParameterStore& store) const {
  const Persistent& where = persistents_.at(id);
  float* memory = where.slot == kNone
                      ? store.data(where.parameter)
                      : store.slot(where.parameter, static_cast<std::size_t>(where.slot));
  SUREFIT_CHECK(memory != nullptr, "no memory for '{}'", graph_.value(id).name);
  return reinterpret_cast<std::byte*>(memory);
}

}  // namespace surefit
