// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "train/setup.hpp"

namespace surefit::worker {

// A page that needs no network: memory over one step, stacked by category with the budget's line,
// and the arena as a picture of time and address; both tell about the buffer under the pointer.
std::string plan_page(const MemoryPlan& plan, const MemoryReport& report, const std::string& model);

}  // namespace surefit::worker
