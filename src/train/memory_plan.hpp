// SPDX-License-Identifier: Apache-2.0
// The memory of one call of fit(): everything that will be resident, known before step 1; the
// fastest plan within a budget, or a refusal that says what would help.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "plan/plan.hpp"

namespace surefit {

// Something that is resident while training runs. The sum of all is the prediction.
struct LedgerEntry {
  std::string name;
  Category category = Category::kRuntime;
  std::uint64_t bytes = 0;
  bool of_step = false;  // a share of the arena at its fullest moment
};

// A way to need less that changes bits, and the floor with it.
struct Offer {
  std::string way;  // as the command line takes it
  std::uint64_t floor_bytes = 0;
};

struct MemoryRequest {
  const Graph* main = nullptr;        // training, or all there is
  const Graph* validation = nullptr;  // takes turns with it in the same arena
  std::int64_t batch = 1, validation_batch = 1;
  int threads = 1;
  std::int64_t group = 0;
  std::uint64_t budget = ~std::uint64_t{0};  // of the whole process
  std::string budget_source;                 // for people
  bool allow_spill = true;
  bool explain = true;               // a refusal tells ways out, which takes time
  std::vector<LedgerEntry> outside;  // the arena: weights, optimizer slots, data, staging
  // What the user could consent to, for a refusal.
  std::function<std::vector<Offer>()> offers = {};
};

// A step down the ladder, and what it bought.
struct Rung {
  std::string name;
  std::uint64_t saved_bytes = 0;
};

struct MemoryPlan {
  Plan main;
  std::optional<Plan> validation;
  std::vector<LedgerEntry> ledger;
  std::vector<Rung> rungs;
  std::uint64_t budget = 0;
  std::uint64_t full_speed_bytes = 0;  // of the process, without any limit
  std::uint64_t floor_bytes = 0;       // the least with the same bits; 0 where nobody asked
  double slowdown = 1;                 // against full speed, on the nominal machine

  std::size_t arena_bytes() const;
  std::uint64_t predicted_bytes() const;
  std::array<std::uint64_t, kCategoryCount> by_category() const;
  std::string peak_layer() const;
};

// The fastest plan within the budget, or nothing. With `with_floor` the floor is computed even
// where the budget is ample.
std::optional<MemoryPlan> find_plan(const MemoryRequest& request, bool with_floor = false);
// The same; throws MemoryRefused with ways out where nothing fits.
MemoryPlan plan_memory(const MemoryRequest& request, bool with_floor = false);
// Throws it, for a request that nothing fits.
[[noreturn]] void refuse(const MemoryRequest& request);
// What the process holds besides the arena.
std::uint64_t outside_bytes(const MemoryRequest& request);
// The least that the process needs.
std::uint64_t floor_bytes(const MemoryRequest& request);

// The largest batch whose plan fits; 0 where not even one sample does.
std::int64_t largest_batch(MemoryRequest request);

// Buffers alive at the peak, the largest first.
std::vector<const Buffer*> largest_at_peak(const Plan& plan, std::size_t count);

// What the process holds besides everything that is planned: code, libraries, stacks, graph,
// kernels.
std::uint64_t runtime_bytes(const Graph& graph, int threads);

}  // namespace surefit
