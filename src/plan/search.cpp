// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "base/check.hpp"
#include "plan/cost.hpp"
#include "plan/plan.hpp"

namespace surefit {
namespace {

// Among plans that are this close in time, the smaller one wins: the constants are not more exact
// than that.
constexpr double kSameTime = 1.03;

struct Candidate {
  Plan plan;
  double seconds = 0;
};

}  // namespace

Plan choose_plan(const Graph& graph, const PlanOptions& options) {
  if (options.group > 0 || options.early_update) return make_plan(graph, options);
  std::vector<Candidate> candidates;
  const auto consider = [&](std::int64_t group, bool early) {
    PlanOptions trial = options;
    trial.group = group;
    trial.early_update = early;
    Candidate candidate;
    candidate.plan = make_plan(graph, trial);
    candidate.seconds = estimate_seconds(graph, candidate.plan);
    candidates.push_back(std::move(candidate));
  };
  consider(options.batch, true);
  for (std::int64_t group = options.batch / 2; group >= 1; group /= 2) {
    // Fewer samples than threads would leave cores idle.
    if (group < options.threads) break;
    consider(group, false);
  }
  double fastest = candidates[0].seconds;
  for (const Candidate& candidate : candidates) fastest = std::min(fastest, candidate.seconds);
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates) {
    if (candidate.seconds > fastest * kSameTime) continue;
    if (best == nullptr || candidate.plan.arena_bytes < best->plan.arena_bytes) best = &candidate;
  }
  return best->plan;
}

}  // namespace surefit
