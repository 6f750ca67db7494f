// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "surefit/callbacks.hpp"

#include "train/memory_plan.hpp"
#include "train/parameters.hpp"

namespace surefit {

// What lies in memory while the plan's instance `moment` runs: parameters and slots one by one, the
// arena's buffers, and the ledger's other entries. Adds up to the ledger.
std::vector<LiveTensor> live_tensors(const std::vector<LedgerEntry>& ledger, const Plan& plan,
                                     const ParameterStore& store, int moment);

}  // namespace surefit
