// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <optional>

#include "base/check.hpp"
#include "graph/graph.hpp"

namespace surefit {
namespace {

using Joined = std::function<std::shared_ptr<const Op>(const Node& producer, const Node& reader, std::size_t at)>;

// Joins `producer` and its only reader, if both agree; the joint node has the reader's id and phase.
std::optional<Node> join(const Node& producer, const Node& reader, const Joined& joined) {
  const ValueId link = producer.outputs[0];
  const auto at = std::find(reader.inputs.begin(), reader.inputs.end(), link);
  if (at == reader.inputs.end() || std::count(reader.inputs.begin(), reader.inputs.end(), link) != 1) {
    return std::nullopt;
  }
  std::shared_ptr<const Op> op = joined(producer, reader, static_cast<std::size_t>(at - reader.inputs.begin()));
  if (op == nullptr) return std::nullopt;
  Node joint = reader;
  joint.op = std::move(op);
  joint.inputs = producer.inputs;
  for (const ValueId id : reader.inputs) {
    if (id != link) joint.inputs.push_back(id);
  }
  joint.outputs = reader.outputs;
  joint.outputs.insert(joint.outputs.end(), producer.outputs.begin() + 1, producer.outputs.end());
  joint.layer = producer.layer;
  return joint;
}

// Puts the joint node in place of the two. The reader's place has everything that it reads ready; but where somebody in
// between reads another result of the producer, it has to stand in the producer's place. It can if the reader adds only
// persistent values, and none that it changes is read behind it.
bool put_joint(Graph& graph, const std::vector<std::vector<NodeId>>& readers, NodeId producer, Node joint) {
  const NodeId reader = joint.id;
  const auto read_between = [&](ValueId id) {
    const auto& list = readers[static_cast<std::size_t>(id)];
    return std::any_of(list.begin(), list.end(), [&](NodeId other) { return other < reader; });
  };
  const Node& first = graph.node(producer);
  const bool early = std::any_of(first.outputs.begin(), first.outputs.end(), read_between);
  if (early) {
    for (const ValueId id : graph.node(reader).inputs) {
      if (id != first.outputs[0] && graph.value(graph.root(id)).origin != Origin::kPersistent) return false;
    }
    for (const int position : joint.op->mutated_inputs()) {
      const ValueId changed = graph.root(joint.inputs[static_cast<std::size_t>(position)]);
      for (const NodeId other : readers[static_cast<std::size_t>(changed)]) {
        if (other > producer && other != reader) return false;
      }
    }
    joint.phase = first.phase;
    joint.source = first.source;
  }
  const NodeId place = early ? producer : reader, gone = early ? reader : producer;
  std::vector<Node> nodes;
  for (const Node& node : graph.nodes()) {
    if (node.id == gone) continue;
    nodes.push_back(node.id == place ? std::move(joint) : node);
    NodeId& source = nodes.back().source;
    if (source == gone) source = place;
    if (source > gone) --source;
  }
  graph.set_nodes(std::move(nodes));
  return true;
}

// The last that can be joined: a node that could go with its producer or with its reader goes with the reader (relu with
// the pooling behind it rather than with the convolution before).
bool fuse_once(Graph& graph, const Joined& joined) {
  const auto readers = graph.readers();
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    const Node& producer = *node;
    if (producer.outputs.empty()) continue;
    const ValueId link = producer.outputs[0];
    const auto& list = readers[static_cast<std::size_t>(link)];
    const bool kept = std::any_of(graph.kept().begin(), graph.kept().end(),
                                  [&](ValueId id) { return graph.root(id) == link; });
    if (list.size() != 1 || kept) continue;
    std::optional<Node> joint = join(producer, graph.node(list[0]), joined);
    if (!joint) continue;
    if (put_joint(graph, readers, producer.id, std::move(*joint))) return true;
  }
  return false;
}

void fuse_phase(Graph& graph, Phase phase) {
  const Joined joined = [&](const Node& producer, const Node& reader, std::size_t at) {
    return reader.phase == phase ? producer.op->absorb(*reader.op, at, graph.input_types(producer)) : nullptr;
  };
  while (fuse_once(graph, joined)) {
  }
}

}  // namespace

void fuse(Graph& graph) {
  fuse_phase(graph, Phase::kForward);
}

void fuse_updates(Graph& graph) {
  fuse_phase(graph, Phase::kUpdate);
}

bool fuse_few(Graph& graph, std::int64_t batch) {
  const Joined joined = [&](const Node& producer, const Node& reader, std::size_t) {
    return producer.op->absorb_few(*reader.op, batch);
  };
  bool any = false;
  while (fuse_once(graph, joined)) any = true;
  return any;
}

}  // namespace surefit
