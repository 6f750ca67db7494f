// SPDX-License-Identifier: Apache-2.0
#include "graph/autodiff.hpp"

#include "base/check.hpp"

namespace surefit {

class Autodiff {
 public:
  Autodiff(Graph& graph, const std::vector<ValueId>& wanted) : graph_(graph) {
    // Whatever a wanted value flows into needs a gradient too.
    needed_.insert(wanted.begin(), wanted.end());
    for (const Node& node : graph.nodes()) {
      for (const ValueId id : node.inputs) {
        if (needed_.contains(id) || needed_.contains(graph.root(id))) {
          needed_.insert(node.outputs.begin(), node.outputs.end());
          break;
        }
      }
    }
  }

  void add(ValueId value, ValueId gradient) {
    const ValueId owner = graph_.root(value);
    if (owner != value) {
      gradient = graph_.add_view(gradient, graph_.value(owner).type, graph_.value(owner).name + "/gradient");
    }
    SUREFIT_CHECK(graph_.value(gradient).type.layout == graph_.value(owner).type.layout &&
                      graph_.value(gradient).type.stored_count() == graph_.value(owner).type.stored_count(),
                  "gradient {} for '{}' {}", graph_.value(gradient).type.to_string(),
                  graph_.value(owner).name, graph_.value(owner).type.to_string());
    const auto [found, fresh] = gradients_.try_emplace(owner, gradient);
    if (!fresh) {
      const Value& target = graph_.value(owner);
      const std::string layer = target.producer == kNone ? target.name : graph_.node(target.producer).layer;
      found->second = graph_.add1(graph_.structural().accumulate(), {found->second, gradient}, layer,
                                  Phase::kBackward, graph_.value(gradient).category);
    }
  }

  ValueId gradient_of(ValueId value) {
    const ValueId owner = graph_.root(value);
    const auto found = gradients_.find(owner);
    return found == gradients_.end() ? kNone : found->second;
  }

  bool needs(ValueId value) const {
    return needed_.contains(value) || needed_.contains(graph_.root(value));
  }

  std::unordered_map<ValueId, ValueId> run() {
    const auto forward = static_cast<NodeId>(graph_.nodes().size());
    for (NodeId id = forward - 1; id >= 0; --id) {
      const Node node = graph_.node(id);  // a copy: emitting grows the list
      bool reached = false, useful = false;
      for (const ValueId output : node.outputs) reached = reached || gradients_.contains(output);
      for (const ValueId input : node.inputs) useful = useful || needs(input);
      if (!reached || !useful) continue;
      GradientBuilder builder(this, &graph_, &node);
      const auto first = static_cast<NodeId>(graph_.nodes().size());
      node.op->gradient(builder);
      graph_.set_source(first, id);
    }
    return gradients_;
  }

 private:
  Graph& graph_;
  std::unordered_set<ValueId> needed_;
  std::unordered_map<ValueId, ValueId> gradients_;
};

ValueId GradientBuilder::output_gradient(std::size_t index) const {
  return autodiff_->gradient_of(node_->outputs[index]);
}

bool GradientBuilder::wants(std::size_t index) const { return autodiff_->needs(node_->inputs[index]); }

std::vector<ValueId> GradientBuilder::emit(std::shared_ptr<const Op> op, std::vector<ValueId> inputs,
                                           Category category) {
  return graph_->add(std::move(op), std::move(inputs), node_->layer, Phase::kBackward, category);
}

ValueId GradientBuilder::emit1(std::shared_ptr<const Op> op, std::vector<ValueId> inputs, Category category) {
  return graph_->add1(std::move(op), std::move(inputs), node_->layer, Phase::kBackward, category);
}

void GradientBuilder::set_input_gradient(std::size_t index, ValueId gradient) {
  if (!wants(index)) return;
  autodiff_->add(node_->inputs[index], gradient);
}

std::unordered_map<ValueId, ValueId> append_backward(
    Graph& graph, const std::vector<std::pair<ValueId, ValueId>>& roots,
    const std::vector<ValueId>& wanted) {
  Autodiff autodiff(graph, wanted);
  for (const auto& [value, gradient] : roots) autodiff.add(value, gradient);
  std::unordered_map<ValueId, ValueId> gradients = autodiff.run();
  graph.check();
  return gradients;
}

}  // namespace surefit
