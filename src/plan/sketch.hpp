// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/plan.hpp"

namespace surefit {

// A plan without addresses, for the search: its max_live_bytes tell the size before the arena is
// packed. Not verified.
Plan sketch_plan(const Graph& graph, const std::vector<OpTraits>& traits,
                 const PlanOptions& options);

}  // namespace surefit
