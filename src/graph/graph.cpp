// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.hpp"

#include <utility>

#include "base/check.hpp"
#include "graph/autodiff.hpp"

namespace surefit {

void Op::gradient(GradientBuilder&) const {
  throw InternalError(fmt::format("[{}] has no gradient", kind()));
}

Layout Op::preferred_layout(std::size_t, const ValueType& type) const { return type.layout; }

std::shared_ptr<const Op> Op::absorb(const Op&, std::size_t, std::span<const ValueType>) const {
  return nullptr;
}

std::shared_ptr<const Op> Op::absorb_few(const Op&, std::int64_t) const {
  return nullptr;
}

const Value& Graph::value(ValueId id) const {
  SUREFIT_CHECK(id >= 0 && id < static_cast<int>(values_.size()), "value {} of {}", id, values_.size());
  return values_[static_cast<std::size_t>(id)];
}

const Node& Graph::node(NodeId id) const {
  SUREFIT_CHECK(id >= 0 && id < static_cast<int>(nodes_.size()), "node {} of {}", id, nodes_.size());
  return nodes_[static_cast<std::size_t>(id)];
}

ValueId Graph::add_input(std::string name, ValueType type, Category category) {
  const auto id = static_cast<ValueId>(values_.size());
  values_.push_back({id, std::move(type), category, Origin::kInput, kNone, kNone, std::move(name)});
  return id;
}

ValueId Graph::add_persistent(std::string name, ValueType type, Category category) {
  type.batched = false;
  const auto id = static_cast<ValueId>(values_.size());
  values_.push_back({id, std::move(type), category, Origin::kPersistent, kNone, kNone, std::move(name)});
  return id;
}

ValueId Graph::add_view(ValueId id, ValueType type, std::string name) {
  const Value& original = value(root(id));
  SUREFIT_CHECK(type.stored_bytes() == original.type.stored_bytes() &&
                    type.batched == original.type.batched,
                "view of {} as {}", original.type.to_string(), type.to_string());
  const auto view = static_cast<ValueId>(values_.size());
  const Value made{view, std::move(type), original.category, original.origin, original.producer,
                   original.id, std::move(name)};
  values_.push_back(made);
  return view;
}

ValueId Graph::root(ValueId id) const {
  const ValueId origin = value(id).view_of;
  return origin == kNone ? id : origin;
}

ValueId Graph::in_layout(ValueId id, Layout layout, const std::string& layer, Phase phase) {
  if (value(id).type.layout == layout) return id;
  const std::int64_t key = std::int64_t{id} * 2 + (layout == Layout::kBlocked ? 1 : 0);
  const auto found = conversions_.find(key);
  if (found != conversions_.end()) return found->second;
  const ValueId converted = add1(structural_.convert(layout), {id}, layer, phase);
  conversions_[key] = converted;
  return converted;
}

std::vector<ValueId> Graph::add(std::shared_ptr<const Op> op, std::vector<ValueId> inputs,
                                std::string layer, Phase phase, Category category) {
  std::vector<ValueType> types;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ValueType& type = value(inputs[i]).type;
    const Layout wanted = op->preferred_layout(i, type);
    inputs[i] = in_layout(inputs[i], wanted, layer, phase);
    types.push_back(value(inputs[i]).type);
  }
  Node node;
  node.id = static_cast<NodeId>(nodes_.size());
  std::vector<ValueType> outputs = op->infer(types);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto id = static_cast<ValueId>(values_.size());
    std::string name = outputs.size() == 1 ? fmt::format("{}/{}", layer, op->kind())
                                           : fmt::format("{}/{}:{}", layer, op->kind(), i);
    // What is computed beside the gradient of a parameter, sample by sample, is none.
    const Category own = category == Category::kGradients && outputs[i].batched ? Category::kActivations : category;
    values_.push_back({id, std::move(outputs[i]), own, Origin::kNode, node.id, kNone, std::move(name)});
    node.outputs.push_back(id);
  }
  node.op = std::move(op);
  node.inputs = std::move(inputs);
  node.layer = std::move(layer);
  node.phase = phase;
  nodes_.push_back(node);
  return nodes_.back().outputs;
}

ValueId Graph::add1(std::shared_ptr<const Op> op, std::vector<ValueId> inputs, std::string layer,
                    Phase phase, Category category) {
  const std::vector<ValueId> outputs =
      add(std::move(op), std::move(inputs), std::move(layer), phase, category);
  SUREFIT_CHECK(outputs.size() == 1, "{} outputs where one was expected", outputs.size());
  return outputs[0];
}

std::vector<ValueType> Graph::input_types(const Node& node) const {
  std::vector<ValueType> types;
  for (const ValueId id : node.inputs) types.push_back(value(id).type);
  return types;
}

std::vector<ValueType> Graph::output_types(const Node& node) const {
  std::vector<ValueType> types;
  for (const ValueId id : node.outputs) types.push_back(value(id).type);
  return types;
}

std::vector<std::vector<NodeId>> Graph::readers() const {
  std::vector<std::vector<NodeId>> result(values_.size());
  for (const Node& node : nodes_) {
    for (const ValueId id : node.inputs) {
      std::vector<NodeId>& list = result[static_cast<std::size_t>(root(id))];
      if (list.empty() || list.back() != node.id) list.push_back(node.id);
    }
  }
  return result;
}

void Graph::set_source(NodeId first, NodeId source) {
  for (auto id = static_cast<std::size_t>(first); id < nodes_.size(); ++id) nodes_[id].source = source;
}

void Graph::set_nodes(std::vector<Node> nodes) {
  nodes_ = std::move(nodes);
  for (Value& value : values_) value.producer = kNone;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    nodes_[i].id = static_cast<NodeId>(i);
    for (const ValueId id : nodes_[i].outputs) values_[static_cast<std::size_t>(id)].producer = nodes_[i].id;
  }
  // A conversion whose node is gone must not be handed out again.
  std::erase_if(conversions_, [&](const auto& entry) { return value(entry.second).producer == kNone; });
  for (Value& value : values_) {
    if (value.view_of != kNone) value.producer = values_[static_cast<std::size_t>(value.view_of)].producer;
  }
}

void Graph::intercept(const std::vector<ValueId>& values,
                      const std::function<std::shared_ptr<const Op>(const std::string& layer)>& make_op) {
  std::vector<bool> wanted(values_.size(), false);
  for (const ValueId id : values) wanted[static_cast<std::size_t>(id)] = true;
  std::vector<Node> nodes;
  std::vector<NodeId> moved;  // old id -> new
  for (Node node : nodes_) {
    moved.push_back(static_cast<NodeId>(nodes.size()));
    std::vector<Node> behind;
    for (ValueId& output : node.outputs) {
      if (static_cast<std::size_t>(output) >= wanted.size() || !wanted[static_cast<std::size_t>(output)]) continue;
      Value before = value(output);
      before.id = static_cast<ValueId>(values_.size());
      before.name += "/before";
      values_.push_back(before);
      Node next;
      next.op = make_op(node.layer);
      next.inputs = {before.id};
      next.outputs = {std::exchange(output, before.id)};
      next.layer = node.layer;
      next.phase = node.phase;
      behind.push_back(std::move(next));
    }
    nodes.push_back(std::move(node));
    for (Node& next : behind) nodes.push_back(std::move(next));
  }
  for (Node& node : nodes) {
    if (node.source != kNone) node.source = moved[static_cast<std::size_t>(node.source)];
  }
  set_nodes(std::move(nodes));
}

std::optional<Graph> Graph::in_form(Form form, std::int64_t batch) const {
  if (form == Form::kFrugal) return frugal();
  if (form == Form::kUsual) return std::nullopt;
  std::optional<Graph> other = *this;
  if (!fuse_few(*other, batch)) other.reset();
  return other;
}

std::optional<Graph> Graph::frugal() const {
  std::optional<Graph> other;
  for (const Node& node : nodes_) {
    std::shared_ptr<const Op> op = node.op->frugal();
    if (op == nullptr) continue;
    if (!other) other = *this;
    const std::vector<ValueType> types = op->infer(other->input_types(node));
    for (std::size_t i = 0; i < types.size(); ++i)
      other->values_[static_cast<std::size_t>(node.outputs[i])].type = types[i];
    other->nodes_[static_cast<std::size_t>(node.id)].op = std::move(op);
  }
  return other;
}

void Graph::check() const {
  std::vector<bool> ready(values_.size(), false), mutated(values_.size(), false);
  for (const Value& value : values_) {
    if (value.origin != Origin::kNode && value.view_of == kNone) ready[static_cast<std::size_t>(value.id)] = true;
  }
  for (const Node& node : nodes_) {
    for (const ValueId id : node.inputs) {
      const auto at = static_cast<std::size_t>(root(id));
      SUREFIT_CHECK(ready[at], "node {} ({}) reads '{}' before it is written", node.id, node.op->kind(),
                    value(id).name);
      SUREFIT_CHECK(!mutated[at], "node {} ({}) reads '{}' after its update", node.id, node.op->kind(),
                    value(id).name);
    }
    for (const int position : node.op->mutated_inputs()) {
      mutated[static_cast<std::size_t>(root(node.inputs[static_cast<std::size_t>(position)]))] = true;
    }
    for (const ValueId id : node.outputs) {
      SUREFIT_CHECK(!ready[static_cast<std::size_t>(id)], "'{}' is written twice", value(id).name);
      ready[static_cast<std::size_t>(id)] = true;
    }
  }
  for (const ValueId id : kept_) {
    SUREFIT_CHECK(ready[static_cast<std::size_t>(root(id))], "kept value '{}' is never written", value(id).name);
  }
}

}  // namespace surefit
