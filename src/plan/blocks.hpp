// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/chain.hpp"
#include "plan/plan.hpp"

namespace surefit {

// What one ChainOption means for the plan: a stretch of forward nodes, its group, and the values it
// does not keep.
struct BlockOption {
  NodeId begin = 0, end = 0;
  std::int64_t group = 0;
  std::vector<ValueId> dropped;
};

// The forward pass as a chain of blocks and the ways to run each stretch of them: group size, and
// how much to recompute, cheapest bytes first.
struct BlockChain {
  std::vector<NodeId> cuts;  // one past the last forward node of each block
  std::vector<ChainOption> options;
  std::vector<BlockOption> meaning;  // by option

  PlanOptions plan_options(const std::vector<int>& tiling, const PlanOptions& base,
                           std::size_t values) const;
};

// Cut where as few values as possible pass from one side to the other (one, at articulation
// points).
BlockChain make_block_chain(const Graph& graph, const std::vector<OpTraits>& traits,
                            std::int64_t batch, int threads);

}  // namespace surefit
