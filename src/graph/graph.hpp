// SPDX-License-Identifier: Apache-2.0
// The graph IR: values and nodes in execution order. Forward, backward and update nodes are all alike; layers emit
// them and nobody asks a layer's type afterwards.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/op.hpp"
#include "graph/value.hpp"

namespace surefit {

enum class Phase : std::uint8_t { kForward, kBackward, kUpdate };

struct Node {
  NodeId id = kNone;
  std::shared_ptr<const Op> op;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::string layer;  // the layer that emitted it, for people
  Phase phase = Phase::kForward;
  NodeId source = kNone;  // of a backward node: the forward node whose gradient it computes
};

// Nodes that the graph itself inserts; handed in because kernels live above the graph.
struct StructuralOps {
  std::shared_ptr<const Op> (*convert)(Layout to) = nullptr;  // one input, the same values in another layout
  std::shared_ptr<const Op> (*accumulate)() = nullptr;        // two inputs of one type, their sum
};

// How the nodes do their work. All forms give the same bits; which one a plan takes is a matter of time and memory.
enum class Form : std::uint8_t {
  kUsual,
  kFew,     // nodes joined that few samples pass (Op::absorb_few)
  kFrugal,  // nodes that hold less at once (Op::frugal)
};

class Graph {
 public:
  explicit Graph(StructuralOps structural) : structural_(structural) {}

  const std::vector<Value>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Value& value(ValueId id) const;
  const Node& node(NodeId id) const;

  // A value filled from outside each step.
  ValueId add_input(std::string name, ValueType type, Category category = Category::kData);
  // A value that lives between steps.
  ValueId add_persistent(std::string name, ValueType type, Category category);

  // Appends a node behind all others; converts input layouts where the op prefers another one.
  std::vector<ValueId> add(std::shared_ptr<const Op> op, std::vector<ValueId> inputs,
                           std::string layer, Phase phase, Category category = Category::kActivations);
  // The single output of a node that has one.
  ValueId add1(std::shared_ptr<const Op> op, std::vector<ValueId> inputs, std::string layer, Phase phase,
               Category category = Category::kActivations);

  // The value in this layout; emits a conversion where it has another one.
  ValueId in_layout(ValueId id, Layout layout, const std::string& layer, Phase phase);
  // The same memory seen as another type of as many stored bytes; costs nothing.
  ValueId add_view(ValueId id, ValueType type, std::string name);
  // The value that owns the memory of `id`.
  ValueId root(ValueId id) const;
  const StructuralOps& structural() const { return structural_; }

  // Values that must survive to the end of the step (loss, metrics, predictions).
  void keep(ValueId id) { kept_.push_back(id); }
  void release(ValueId id) { std::erase(kept_, id); }
  const std::vector<ValueId>& kept() const { return kept_; }

  std::vector<ValueType> input_types(const Node& node) const;
  std::vector<ValueType> output_types(const Node& node) const;
  // For each value, the nodes that read it or a view of it, in order.
  std::vector<std::vector<NodeId>> readers() const;
  // Backward nodes from `first` on belong to the forward node `source`.
  void set_source(NodeId first, NodeId source);
  // Replaces the nodes by these, in order; ids are assigned anew, values stay.
  void set_nodes(std::vector<Node> nodes);

  // Puts a node of one input and one output behind the producer of each of these values, made for the producer's layer.
  // Whoever read them reads its result; the producers write what the new nodes read. Ids of values stay.
  void intercept(const std::vector<ValueId>& values,
                 const std::function<std::shared_ptr<const Op>(const std::string& layer)>& make_op);

  // The graph in another form for batches of this size, or nothing where no node has it. Ids of values stay.
  std::optional<Graph> in_form(Form form, std::int64_t batch) const;

  // Every node reads only what earlier nodes, inputs or persistents provide; mutated persistents are not read
  // afterwards. Throws InternalError.
  void check() const;

 private:
  std::optional<Graph> frugal() const;

  StructuralOps structural_;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<ValueId> kept_;
  // One conversion per value and layout serves all its readers.
  std::unordered_map<std::int64_t, ValueId> conversions_;
};

// Joins neighbouring nodes as their ops allow (Op::absorb), in order, until nothing changes. Runs before autodiff, on
// every graph alike, so that the budget can never change what is computed. Value ids stay.
void fuse(Graph& graph);

// Joins nodes that compute a gradient with the update that alone reads it, as their ops allow. Runs when both are there;
// changes no bit of what is computed.
void fuse_updates(Graph& graph);

// Joins nodes that few samples pass, as their ops allow (Op::absorb_few). Whether there were any.
bool fuse_few(Graph& graph, std::int64_t batch);

// Removes nodes whose results nobody wants: not kept, not read by a kept node, no change of persistent memory.
void prune(Graph& graph);

}  // namespace surefit
