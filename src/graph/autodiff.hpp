// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.hpp"

namespace surefit {

// Handed to Op::gradient for one forward node.
class GradientBuilder {
 public:
  ValueId input(std::size_t index) const { return node_->inputs[index]; }
  ValueId output(std::size_t index) const { return node_->outputs[index]; }
  std::size_t input_count() const { return node_->inputs.size(); }
  const ValueType& type(ValueId id) const { return graph_->value(id).type; }
  // Gradient of the loss with respect to an output; kNone when it does not reach the loss.
  ValueId output_gradient(std::size_t index) const;
  // Whether anyone wants the gradient of this input: do not emit work for those nobody wants.
  bool wants(std::size_t index) const;
  // Emits a backward node; gradients of parameters get their own category.
  std::vector<ValueId> emit(std::shared_ptr<const Op> op, std::vector<ValueId> inputs,
                            Category category = Category::kActivations);
  ValueId emit1(std::shared_ptr<const Op> op, std::vector<ValueId> inputs,
                Category category = Category::kActivations);
  // States the gradient of an input. Called at most once per input; several readers are summed by autodiff.
  void set_input_gradient(std::size_t index, ValueId gradient);

 private:
  friend class Autodiff;
  GradientBuilder(class Autodiff* autodiff, Graph* graph, const Node* node)
      : autodiff_(autodiff), graph_(graph), node_(node) {}
  class Autodiff* autodiff_;
  Graph* graph_;
  const Node* node_;
};

// Appends the backward nodes of every forward node between `wanted` (parameters, or inputs) and the roots, whose
// gradients are given as (value, gradient) pairs. Gradients are summed in reader order, so the bits are fixed.
std::unordered_map<ValueId, ValueId> append_backward(
    Graph& graph, const std::vector<std::pair<ValueId, ValueId>>& roots,
    const std::vector<ValueId>& wanted);

}  // namespace surefit
