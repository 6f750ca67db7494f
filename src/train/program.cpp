// SPDX-License-Identifier: Apache-2.0
#include "train/program.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/round.hpp"
#include "nn/ops/structural.hpp"
#include "nn/regularizer.hpp"
#include "train/updates.hpp"

namespace surefit {

Program::Program(const Network& network, const Compiled* compiled, Purpose purpose,
                 Convolutions convolutions, const Weighting& weighting, const Lossy& lossy)
    : graph_(structural_ops()) {
  const bool training = purpose == Purpose::kTrain;
  const Network::Built built =
      network.build(graph_, training, convolutions, {.ghost_batch = lossy.ghost_batch});
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
  std::vector<Seed> seeds;
  add_targets(built, *compiled, weighting, training, seeds);
  loss_ = add_penalties(network, built, loss_);
  graph_.keep(loss_);
  for (const auto& [root, gradient] : seeds) graph_.keep(gradient);
  // Nodes for the end of the step come behind the backward pass; what they will read must be there.
  const auto for_updates = [&](const auto& visit) {
    for (const Network::Built::Update& later : built.updates) {
      for (const ValueId id : later.inputs)
        if (graph_.value(id).origin == Origin::kNode) visit(id);
    }
  };
  for_updates([&](ValueId id) { graph_.keep(id); });
  prune(graph_);
  fuse(graph_);
  for_updates([&](ValueId id) { graph_.release(id); });
  if (training) {
    for (const auto& [root, gradient] : seeds) graph_.release(gradient);
    add_backward(network, built, seeds, compiled->optimizer);
    if (lossy.storage != Half::kNo) round_saved(lossy.storage, built.outputs);
  }
  graph_.check();
}

void Program::round_saved(Half format, const std::vector<ValueId>& predictions) {
  std::vector<bool> exact(graph_.values().size(), false);
  for (const ValueId id : predictions) exact[static_cast<std::size_t>(graph_.root(id))] = true;
  std::vector<ValueId> saved;
  for (const Node& node : graph_.nodes()) {
    if (node.phase != Phase::kBackward) continue;
    for (const ValueId input : node.inputs) {
      const ValueId id = graph_.root(input);
      const Value& value = graph_.value(id);
      // Rows (statistics, features) take little room and would lose what they are there for.
      const bool picture =
          value.type.batched && value.type.dtype == DType::kFloat32 && value.type.shape.rank() > 1;
      if (value.origin == Origin::kNode && picture && !exact[static_cast<std::size_t>(id)] &&
          graph_.node(value.producer).phase == Phase::kForward)
        saved.push_back(id);
    }
  }
  graph_.intercept(saved, [&](const std::string& layer) { return make_round_op(format, layer); });
}

void Program::add_targets(const Network::Built& built, const Compiled& compiled,
                          const Weighting& weighting, bool training, std::vector<Seed>& seeds) {
  const std::vector<Target>& targets = compiled.targets;
  if (built.outputs.size() != targets.size()) {
    throw ConfigError(fmt::format(
        "[compile] every output needs a loss of its own; expected {} for as many outputs; got {}",
        built.outputs.size(), targets.size()));
  }
  if (targets.size() > 1 && !weighting.classes.empty())
    throw ConfigError("[class_weight] works with one output; weigh samples instead");
  if (weighting.samples && !weighting.classes.empty())
    throw ConfigError("[class_weight] the data bring weights of samples already; give one of both");
  if (weighting.samples) sample_weights_ = graph_.add_input("sample_weight", ValueType{});
  std::vector<double> weights;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const LossNodes loss = add_target(targets[i], built.outputs[i], weighting, training);
    target_losses_.push_back(loss.loss);
    weights.push_back(targets[i].weight);
    if (training) seeds.emplace_back(loss.root, loss.gradient);
  }
  if (targets.size() == 1 && targets[0].weight == 1) {
    loss_ = target_losses_[0];
    target_losses_.clear();
    return;
  }
  loss_ = graph_.add1(make_weighted_sum_op(weights), target_losses_, "loss", Phase::kForward);
  for (const ValueId id : target_losses_) graph_.keep(id);
}

LossNodes Program::add_target(const Target& target, ValueId prediction, const Weighting& weighting,
                              bool training) {
  const std::string name = target.name.empty() ? "labels" : target.name + "/labels";
  const LossImpl& impl = target.loss.impl();
  label_specs_.push_back(impl.labels(graph_.value(prediction).type.shape));
  ValueType label_type;
  label_type.shape = label_specs_.back().shape;
  label_type.dtype = label_specs_.back().dtype;
  const ValueId labels = graph_.add_input(name, label_type);
  labels_.push_back(labels);
  LossNodes loss = impl.build(graph_, prediction, labels, training);
  const auto append = [&](std::shared_ptr<const Op> op, std::vector<ValueId> inputs) {
    return graph_.add1(std::move(op), std::move(inputs), "loss", Phase::kForward);
  };
  ValueId weights = sample_weights_;
  if (!weighting.classes.empty())
    weights = append(make_class_weight_op(label_type, weighting.classes), {labels});
  if (weights != kNone) {
    const auto weigh = [&](ValueId id) {
      return append(make_weigh_op(graph_.value(id).type), {id, weights});
    };
    loss.loss = weigh(loss.loss);
    if (training) loss.gradient = weigh(loss.gradient);
  }
  if (training && target.weight != 1) {
    loss.gradient =
        append(make_scale_op(graph_.value(loss.gradient).type, target.weight), {loss.gradient});
  }
  for (const Metric& metric : target.metrics) {
    metrics_.push_back(metric.impl().build(graph_, prediction, labels, label_specs_.back()));
    graph_.keep(metrics_.back());
  }
  return loss;
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
                           const std::vector<Seed>& seeds, const Optimizer& optimizer) {
  std::vector<ValueId> wanted;
  for (std::size_t i = 0; i < built.parameters.size(); ++i) {
    if (built.parameters[i] != kNone && network.parameters()[i].trainable)
      wanted.push_back(built.parameters[i]);
  }
  if (wanted.empty()) throw ConfigError("[compile] the model has no trainable parameters");
  auto gradients = append_backward(graph_, seeds, wanted);
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
  std::vector<ParameterGradient> updates;
  for (const auto& [producer, index] : order)
    updates.push_back({index, built.parameters[index], gradients.at(built.parameters[index])});
  append_updates(graph_, network, optimizer.impl(), updates,
                 [&](ValueId id, std::size_t parameter, int slot) {
                   persistents_[id] = {parameter, slot};
                 });
  append_state_updates(graph_, built.updates);
  fuse_updates(graph_);
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
