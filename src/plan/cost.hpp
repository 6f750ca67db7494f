// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/plan.hpp"

namespace surefit {

// A nominal machine. Constants, never measurements: plan and train must agree on any day, and only
// the order of candidate plans matters, not their seconds.
struct CostModel {
  double flops_per_second = 100e9;  // of one thread
  double bytes_per_second = 12e9;   // of one thread, from memory
  double dispatch_seconds = 4e-6;   // to start a node on all threads and wait for the last
};

// Seconds of one step of the plan at its full batch.
double estimate_seconds(const Graph& graph, const Plan& plan, const CostModel& model = {});

}  // namespace surefit
