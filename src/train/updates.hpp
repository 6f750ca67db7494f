// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "graph/graph.hpp"
#include "optim/optimizer.hpp"
#include "train/network.hpp"

namespace surefit {

// The values of one parameter in a graph.
struct ParameterGradient {
  std::size_t parameter = 0;  // as Network::parameters()
  ValueId value = kNone;      // the persistent one
  ValueId gradient = kNone;
};

// Told of every slot that an update brought into the graph.
using SlotAdded = std::function<void(ValueId id, std::size_t parameter, int slot)>;

// One update by the optimizer of each parameter, with its clipping and constraints.
void append_updates(Graph& graph, const Network& network, const OptimizerImpl& optimizer,
                    const std::vector<ParameterGradient>& gradients, const SlotAdded& slot_added);

// The factor that keeps the norm of these gradients together within the limit: one float64.
ValueId append_clip_factor(Graph& graph, const Network& network,
                           std::span<const ParameterGradient> gradients, double limit);

// The changes of running statistics at the end of a step. Those of a layer that was called several
// times follow each other in one node: a persistent value changes once in a step.
void append_state_updates(Graph& graph, const std::vector<Network::Built::Update>& updates);

}  // namespace surefit
