// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "plan/plan.hpp"

namespace surefit {

// What the plan needs to know of every node; asked once.
std::vector<OpTraits> traits_of(const Graph& graph);

// Whether a value may be dropped and restored: the result of a pure forward node that is no sum
// over samples.
bool restorable(const Graph& graph, const std::vector<OpTraits>& traits, ValueId value);

// Fills in the plan's segments, its instances, and one buffer per copy of a value (without lifetime
// and size).
//
// Forward stretches run first to last, backward ones last to first. The last stretch's two halves
// form one loop where its group is smaller than the batch: a group passes forward and backward
// before the next starts. A backward node that reads a value which was not kept has the restoring
// steps put right before it.
void make_schedule(const Graph& graph, const std::vector<OpTraits>& traits,
                   const PlanOptions& options, Plan& plan);

}  // namespace surefit
