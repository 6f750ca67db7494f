// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "graph/graph.hpp"

namespace surefit {

void prune(Graph& graph) {
  std::vector<bool> wanted(graph.values().size(), false);
  for (const ValueId id : graph.kept()) wanted[static_cast<std::size_t>(graph.root(id))] = true;
  std::vector<Node> kept;
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    bool useful = !node->op->pure();
    for (const ValueId id : node->outputs) useful = useful || wanted[static_cast<std::size_t>(id)];
    if (!useful) continue;
    for (const ValueId id : node->inputs) wanted[static_cast<std::size_t>(graph.root(id))] = true;
    kept.push_back(*node);
  }
  graph.set_nodes({kept.rbegin(), kept.rend()});
}

}  // namespace surefit
