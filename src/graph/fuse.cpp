// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "base/check.hpp"
#include "graph/graph.hpp"

namespace surefit {
namespace {

// Joins `producer` into its only reader, if both agree. The joint node takes the reader's place: everything it reads
// is ready there.
std::optional<Node> join(const Graph& graph, const Node& producer, const Node& reader) {
  if (producer.outputs.empty()) return std::nullopt;
  const ValueId link = producer.outputs[0];
  const auto at = std::find(reader.inputs.begin(), reader.inputs.end(), link);
  if (at == reader.inputs.end() || std::count(reader.inputs.begin(), reader.inputs.end(), link) != 1) {
    return std::nullopt;
  }
  std::shared_ptr<const Op> op =
      producer.op->absorb(*reader.op, static_cast<std::size_t>(at - reader.inputs.begin()),
                          graph.input_types(producer));
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

bool fuse_once(Graph& graph, Phase phase) {
  const auto readers = graph.readers();
  for (const Node& producer : graph.nodes()) {
    if (producer.outputs.empty()) continue;
    const ValueId link = producer.outputs[0];
    const auto& list = readers[static_cast<std::size_t>(link)];
    const bool kept = std::any_of(graph.kept().begin(), graph.kept().end(),
                                  [&](ValueId id) { return graph.root(id) == link; });
    if (list.size() != 1 || kept || graph.node(list[0]).phase != phase) continue;
    std::optional<Node> joint = join(graph, producer, graph.node(list[0]));
    if (!joint) continue;
    std::vector<Node> nodes;
    for (const Node& node : graph.nodes()) {
      if (node.id == producer.id) continue;
      nodes.push_back(node.id == list[0] ? *joint : node);
    }
    graph.set_nodes(std::move(nodes));
    return true;
  }
  return false;
}

}  // namespace

void fuse(Graph& graph) {
  while (fuse_once(graph, Phase::kForward)) {
  }
}

void fuse_updates(Graph& graph) {
  while (fuse_once(graph, Phase::kUpdate)) {
  }
}

}  // namespace surefit
