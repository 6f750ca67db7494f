// SPDX-License-Identifier: Apache-2.0
#include "train/tape.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/arithmetic.hpp"
#include "nn/ops/structural.hpp"
#include "nn/ops/weighting.hpp"
#include "optim/gradient_ops.hpp"

namespace surefit {
namespace {

// Ids of values that are known only when the forward pass is complete.
constexpr int kFirstLate = -2;

}  // namespace

float* GradientSum::State::data(std::size_t parameter) const {
  return reinterpret_cast<float*>(memory->base()) + offsets.at(parameter);
}

GradientSum::GradientSum(Model& model) : state_(std::make_shared<State>()) {
  state_->model = model.shared_impl();
  std::size_t count = 0;
  const auto& parameters = state_->model->network.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].trainable) continue;
    state_->offsets[i] = count;
    count += static_cast<std::size_t>(
        round_up(static_cast<std::int64_t>(parameters[i].stored_count()), 16));
  }
  state_->memory = std::make_unique<Arena>(count * sizeof(float));
}
GradientSum::~GradientSum() = default;
GradientSum::GradientSum(GradientSum&&) noexcept = default;
GradientSum& GradientSum::operator=(GradientSum&&) noexcept = default;

TapeImpl::TapeImpl(Convolutions convolutions)
    : graph_(structural_ops()), convolutions_(convolutions) {}

const ValueType& TapeImpl::type(const Traced& value) {
  return graph_.value(id_of(value)).type;
}

void TapeImpl::require_own(const Traced& value) const {
  if (&value.tape() != this) throw ConfigError("[tape] the value belongs to another step");
}

ValueId TapeImpl::id_of(const Traced& value) const {
  require_own(value);
  if (value.id() <= kFirstLate)
    throw ConfigError("[tape] the gradient by a value can only be an output of the step");
  return value.id();
}

Traced TapeImpl::input(const Shape& shape, DType dtype) {
  if (dtype != DType::kFloat32 && dtype != DType::kInt32) {
    throw ConfigError(
        fmt::format("[tape] input; expected float32 or int32; got {}", name_of(dtype)));
  }
  ValueType type;
  type.shape = shape;
  type.dtype = dtype;
  inputs_.push_back({graph_.add_input(fmt::format("input_{}", inputs_.size()), type)});
  return Traced(this, inputs_.back().id);
}

Traced TapeImpl::add_node(std::shared_ptr<const Op> op, const std::vector<Traced>& inputs) {
  std::vector<ValueId> ids;
  for (const Traced& input : inputs) {
    ids.push_back(id_of(input));
    if (graph_.value(ids.back()).type.dtype != DType::kFloat32)
      throw ConfigError("[tape] arithmetic needs float32 values; labels are for losses");
  }
  return Traced(this, graph_.add1(std::move(op), std::move(ids), "step", Phase::kForward));
}

std::vector<ValueId>& TapeImpl::parameters_of(const std::shared_ptr<Model::Impl>& model) {
  auto [found, fresh] = parameters_.try_emplace(model.get());
  if (fresh) {
    models_.push_back(model);
    found->second.assign(model->network.parameters().size(), kNone);
  }
  return found->second;
}

ValueId TapeImpl::parameter_value(const std::shared_ptr<Model::Impl>& model, std::size_t index) {
  ValueId& id = parameters_of(model)[index];
  if (id == kNone) {
    const Parameter& parameter = model->network.parameters()[index];
    ValueType type;
    type.shape = Shape{static_cast<std::int64_t>(parameter.stored_count())};
    type.batched = false;
    id = graph_.add_persistent(parameter.name, type, Category::kWeights);
    persistents_[id] = {.model = model.get(), .parameter = index};
  }
  return id;
}

std::vector<Traced> TapeImpl::call(Model& model, const std::vector<Traced>& inputs, bool training) {
  const std::shared_ptr<Model::Impl>& impl = model.shared_impl();
  if (applied_ == impl) {
    throw ConfigError(
        fmt::format("[tape] model '{}' is called after its gradients were applied; trace a second "
                    "step for what comes behind the update",
                    impl->name));
  }
  const Network& network = impl->network;
  if (inputs.size() != network.input_calls().size()) {
    throw ConfigError(fmt::format("[tape] model '{}'; expected {} inputs; got {}", impl->name,
                                  network.input_calls().size(), inputs.size()));
  }
  Placement placement;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto call = static_cast<std::size_t>(network.input_calls()[i]);
    const Shape& wanted = network.calls()[call].shape;
    const ValueType& given = type(inputs[i]);
    if (given.shape != wanted || given.dtype != DType::kFloat32) {
      throw ConfigError(fmt::format("[tape] model '{}', input {}; expected float32 {}; got {} {}",
                                    impl->name, i, wanted.to_string(), name_of(given.dtype),
                                    given.shape.to_string()));
    }
    placement.inputs.push_back(
        graph_.in_layout(id_of(inputs[i]), Layout::kPlain, "step", Phase::kForward));
  }
  placement.parameters = parameters_of(impl);
  placement.first_layer_id = next_layer_id_;
  next_layer_id_ += static_cast<std::uint32_t>(network.calls().size());
  Network::Built built = network.build(graph_, training, convolutions_, placement);
  parameters_of(impl) = built.parameters;
  for (std::size_t i = 0; i < built.parameters.size(); ++i) {
    if (built.parameters[i] != kNone)
      persistents_[built.parameters[i]] = {.model = impl.get(), .parameter = i};
  }
  if (training) updates_.insert(updates_.end(), built.updates.begin(), built.updates.end());
  std::vector<Traced> outputs;
  for (const ValueId id : built.outputs) outputs.push_back(Traced(this, id));
  return outputs;
}

LossValue TapeImpl::add_loss(const LossNodes& nodes) {
  LossValue value;
  value.terms_.push_back({static_cast<int>(losses_.size()), 1});
  losses_.push_back(nodes);
  return value;
}

LossValue TapeImpl::loss(const Loss& loss, const Traced& labels, const Traced& predictions) {
  const LabelSpec spec = loss.impl().labels(type(predictions).shape);
  const ValueType& given = type(labels);
  if (given.shape.count() != spec.shape.count() || given.dtype != spec.dtype) {
    throw ConfigError(fmt::format("[tape] labels of {}; expected {} {}; got {} {}", loss.name(),
                                  name_of(spec.dtype), spec.shape.to_string(), name_of(given.dtype),
                                  given.shape.to_string()));
  }
  for (Input& input : inputs_) {
    if (input.id == labels.id() && spec.classes > 0)
      input.classes = input.classes == 0 ? spec.classes : std::min(input.classes, spec.classes);
  }
  return add_loss(loss.impl().build(graph_, id_of(predictions), id_of(labels), true));
}

LossValue TapeImpl::mean(const Traced& value) {
  if (type(value).dtype != DType::kFloat32)
    throw ConfigError("[tape] mean; expected a float32 value");
  return add_loss(add_mean_loss(graph_, id_of(value)));
}

void TapeImpl::use(const LossValue& loss) {
  for (const LossValue::Term& term : loss.terms()) {
    if (term.index < 0 || static_cast<std::size_t>(term.index) >= losses_.size())
      throw ConfigError("[tape] the loss belongs to another step");
    if (std::find(used_losses_.begin(), used_losses_.end(), term.index) == used_losses_.end())
      used_losses_.push_back(term.index);
  }
}

std::vector<std::pair<ValueId, ValueId>> TapeImpl::seeds(const LossValue& loss) {
  if (loss.terms().empty()) throw ConfigError("[tape] gradient; expected a loss of this step");
  use(loss);
  std::vector<std::pair<ValueId, ValueId>> roots;
  for (const LossValue::Term& term : loss.terms()) {
    const LossNodes& nodes = losses_[static_cast<std::size_t>(term.index)];
    ValueId gradient = nodes.gradient;
    if (term.factor != 1)
      gradient = graph_.add1(make_scale_op(graph_.value(gradient).type, term.factor), {gradient},
                             "loss", Phase::kForward);
    seeds_.push_back(gradient);
    roots.emplace_back(nodes.root, gradient);
  }
  return roots;
}

Gradients TapeImpl::gradient(const LossValue& loss, Model& model) {
  const auto impl = model.shared_impl();
  if (!parameters_.contains(impl.get())) {
    throw ConfigError(
        fmt::format("[tape] gradient; model '{}' was not called in this step", impl->name));
  }
  auto state = std::make_shared<Gradients::State>(Gradients::State{this, impl, {}});
  later_.push_back([this, state, roots = seeds(loss)] {
    const std::vector<ValueId>& values = parameters_of(state->model);
    const auto& parameters = state->model->network.parameters();
    std::vector<ValueId> wanted;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] != kNone && parameters[i].trainable) wanted.push_back(values[i]);
    }
    const auto gradients = append_backward(graph_, roots, wanted);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto found = gradients.find(values[i]);
      if (values[i] != kNone && parameters[i].trainable && found != gradients.end())
        state->entries.push_back({i, values[i], found->second});
    }
    if (state->entries.empty()) {
      throw ConfigError(fmt::format(
          "[tape] gradient; the loss does not depend on any trainable parameter of model '{}'",
          state->model->name));
    }
    // In the order in which the backward pass finishes them, so that early updates need no
    // reordering.
    std::sort(state->entries.begin(), state->entries.end(),
              [this](const ParameterGradient& a, const ParameterGradient& b) {
                return graph_.value(a.gradient).producer < graph_.value(b.gradient).producer;
              });
  });
  return Gradients(std::move(state));
}

Traced TapeImpl::gradient(const LossValue& loss, const Traced& value) {
  const ValueId id = id_of(value);
  const std::size_t place = late_values_.size();
  late_values_.push_back(kNone);
  later_.push_back([this, id, place, roots = seeds(loss)] {
    const auto gradients = append_backward(graph_, roots, {id});
    const auto found = gradients.find(graph_.root(id));
    if (found == gradients.end())
      throw ConfigError("[tape] gradient; the loss does not depend on the value");
    late_values_[place] =
        graph_.in_layout(found->second, Layout::kPlain, "gradients", Phase::kBackward);
  });
  return Traced(this, kFirstLate - static_cast<int>(place));
}

Gradients TapeImpl::changed(const Gradients& gradients, Change change) {
  auto state =
      std::make_shared<Gradients::State>(Gradients::State{this, gradients.state()->model, {}});
  later_.push_back([this, state, from = gradients.state(), change = std::move(change)] {
    state->entries = from->entries;
    change(*this, state->entries);
  });
  return Gradients(std::move(state));
}

Gradients TapeImpl::sum(const Gradients& a, const Gradients& b) {
  if (a.state()->model != b.state()->model || b.state()->tape != this)
    throw ConfigError("[tape] gradients of different models or steps cannot be added");
  return changed(a, [other = b.state()](TapeImpl& tape, std::vector<ParameterGradient>& entries) {
    for (const ParameterGradient& more : other->entries) {
      const auto same = std::find_if(
          entries.begin(), entries.end(),
          [&](const ParameterGradient& each) { return each.parameter == more.parameter; });
      if (same == entries.end()) {
        entries.push_back(more);
      } else {
        same->gradient = tape.graph().add1(tape.graph().structural().accumulate(),
                                           {same->gradient, more.gradient}, "gradients",
                                           Phase::kUpdate, Category::kGradients);
      }
    }
  });
}

void TapeImpl::apply(Model& model, const Gradients& gradients) {
  const auto impl = model.shared_impl();
  const Compiled& compiled = impl->require_compiled("tape");
  if (gradients.state()->model != impl || gradients.state()->tape != this)
    throw ConfigError(fmt::format("[tape] apply; the gradients are not of model '{}'", impl->name));
  if (applied_ != nullptr) {
    throw ConfigError(
        "[tape] apply; a step makes one update of one model; trace another step for the next");
  }
  applied_ = impl;
  later_.push_back([this, impl, &compiled, from = gradients.state()] {
    append_updates(graph_, impl->network, compiled.optimizer.impl(), from->entries,
                   [&](ValueId id, std::size_t parameter, int slot) {
                     persistents_[id] = {.model = impl.get(), .parameter = parameter, .slot = slot};
                   });
  });
}

ValueId TapeImpl::sum_value(GradientSum::State& sum, std::size_t parameter, const ValueType& type) {
  const std::string name = fmt::format("sum {}/{}", static_cast<const void*>(&sum), parameter);
  auto [found, fresh] = sum_values_.try_emplace(name, kNone);
  if (fresh) {
    found->second = graph_.add_persistent(sum.model->network.parameters()[parameter].name + "/sum",
                                          type, Category::kGradients);
    persistents_[found->second] = {.sum = &sum, .parameter = parameter};
  }
  return found->second;
}

void TapeImpl::accumulate(GradientSum& sum, const Gradients& gradients) {
  const auto state = sum.state();
  if (gradients.state()->model != state->model || gradients.state()->tape != this)
    throw ConfigError("[tape] accumulate; the gradients are of another model or step");
  for (const auto& known : {added_, taken_}) {
    if (std::find(known.begin(), known.end(), state) != known.end())
      throw ConfigError("[tape] a sum of gradients is used once in a step; trace a second step");
  }
  added_.push_back(state);
  later_.push_back([this, state, from = gradients.state()] {
    for (const ParameterGradient& each : from->entries) {
      const ValueId to = sum_value(*state, each.parameter, graph_.value(each.value).type);
      graph_.add(make_add_to_sum_op(state->fresh), {to, each.gradient}, "gradients",
                 Phase::kUpdate);
    }
  });
}

Gradients TapeImpl::take(GradientSum& sum) {
  const auto from = sum.state();
  for (const auto& known : {added_, taken_}) {
    if (std::find(known.begin(), known.end(), from) != known.end())
      throw ConfigError("[tape] a sum of gradients is used once in a step; trace a second step");
  }
  taken_.push_back(from);
  auto state = std::make_shared<Gradients::State>(Gradients::State{this, from->model, {}});
  const auto& parameters = from->model->network.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].trainable) continue;
    const ValueId value = parameter_value(from->model, i);
    state->entries.push_back({i, value, sum_value(*from, i, graph_.value(value).type)});
  }
  return Gradients(std::move(state));
}

void TapeImpl::require_new_name(const std::string& name) const {
  const auto same = [&](const auto& output) { return output.name == name; };
  if (std::any_of(loss_outputs_.begin(), loss_outputs_.end(), same) ||
      std::any_of(value_outputs_.begin(), value_outputs_.end(), same))
    throw ConfigError(fmt::format("[tape] two outputs are called '{}'", name));
}

void TapeImpl::output(const std::string& name, const LossValue& loss) {
  require_new_name(name);
  use(loss);
  loss_outputs_.push_back({name, loss});
}

void TapeImpl::output(const std::string& name, const Traced& value) {
  require_new_name(name);
  require_own(value);
  const std::size_t at = value_outputs_.size();
  value_outputs_.push_back({.name = name});
  if (value.id() <= kFirstLate) {
    later_.push_back([this, at, place = static_cast<std::size_t>(kFirstLate - value.id())] {
      value_outputs_[at].id = late_values_[place];
      graph_.keep(value_outputs_[at].id);
    });
    return;
  }
  value_outputs_[at].id = graph_.in_layout(value.id(), Layout::kPlain, "step", Phase::kForward);
  graph_.keep(value_outputs_[at].id);
}

void TapeImpl::output(const std::string& name, const Gradients& gradients) {
  if (gradients.state()->tape != this)
    throw ConfigError("[tape] output; the gradients are of another step");
  later_.push_back([this, name, from = gradients.state()] {
    for (const ParameterGradient& each : from->entries) {
      const std::string full = name + "/" + from->model->network.parameters()[each.parameter].name;
      require_new_name(full);
      value_outputs_.push_back({full, each.gradient, from->model.get(), each.parameter});
      if (graph_.value(each.gradient).origin != Origin::kPersistent) graph_.keep(each.gradient);
    }
  });
}

void TapeImpl::finish(const LossValue& returned) {
  use(returned);
  for (const int index : used_losses_) graph_.keep(losses_[static_cast<std::size_t>(index)].loss);
  for (const ValueId id : seeds_) graph_.keep(id);
  prune(graph_);
  fuse(graph_);
  for (const ValueId id : seeds_) graph_.release(id);
  for (const auto& emit : later_) emit();
  append_state_updates(graph_, updates_);
  fuse_updates(graph_);
  graph_.check();
  if (graph_.nodes().empty()) throw ConfigError("[tape] the step does nothing");
}

std::byte* TapeImpl::persistent(ValueId id) const {
  const Persistent& where = persistents_.at(id);
  float* memory =
      where.sum != nullptr ? where.sum->data(where.parameter)
      : where.slot == kNone
          ? where.model->parameters.data(where.parameter)
          : where.model->parameters.slot(where.parameter, static_cast<std::size_t>(where.slot));
  SUREFIT_CHECK(memory != nullptr, "no memory for '{}'", graph_.value(id).name);
  return reinterpret_cast<std::byte*>(memory);
}

}  // namespace surefit
