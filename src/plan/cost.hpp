// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/plan.hpp"

namespace surefit {

// A nominal machine. Constants, never measurements: plan and train must agree on any day, and only
// the order of candidate plans matters, not their seconds.
struct CostModel {
  double flops_per_second = 100e9;  // of one thread
  double bytes_per_second = 12e9;   // of one thread, from memory
  double dispatch_seconds = 5e-7;   // to start a node on all threads and wait for the last
  double disk_bytes_per_second = 0.5e9;
  double cache_bytes = 256e3;  // a tensor of this size is still there when the next group comes
};

// Seconds of one execution of a node over the batch, cut into this many groups, on so many threads.
double node_seconds(const Graph& graph, NodeId node, const OpTraits& traits, std::int64_t batch,
                    int threads, double groups, const CostModel& model = {});

// Seconds of one step of the plan at its full batch.
double estimate_seconds(const Graph& graph, const std::vector<OpTraits>& traits, const Plan& plan,
                        const CostModel& model = {});

}  // namespace surefit
