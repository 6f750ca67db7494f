// SPDX-License-Identifier: Apache-2.0
// The budget search among the plans of one form of a graph: from the fastest down the ladder of
// memory rungs to the smallest.
#pragma once

#include <optional>
#include <vector>

#include "plan/blocks.hpp"
#include "plan/plan.hpp"

namespace surefit {

struct SearchOptions {
  std::int64_t batch = 1;
  int threads = 1;
  std::int64_t group = 0;   // forces a group for all of the net; 0: the search decides
  bool allow_spill = true;  // a file is at hand
};

// A point of the search: what to do, and what it costs by the nominal machine.
struct Choice {
  PlanOptions options;
  double seconds = 0;
  std::size_t live_bytes = 0;  // the arena is at most a hundredth larger
};

class FormSearch {
 public:
  FormSearch(const Graph& graph, const SearchOptions& options);

  // The smallest of the fastest.
  const Choice& fastest();
  // The least memory without and with a file.
  const Choice& smallest();
  const Choice& floor();
  // The fastest that fits into an arena of this many bytes, or nothing; without a file and the last
  // that can be recomputed unless `all_means`.
  std::optional<Choice> within(std::size_t arena_bytes, bool all_means);
  struct Found {
    Choice choice;
    Plan plan;
  };
  // The same, packed: gaps between buffers count too.
  std::optional<Found> plan_within(std::size_t arena_bytes, bool all_means);
  // Whether something fits that is quickly found; more may with the whole search.
  bool easily_within(std::size_t arena_bytes);
  // A packed and verified plan.
  Plan finish(const Choice& choice) const;

 private:
  Choice evaluate(PlanOptions options) const;
  PlanOptions base() const;
  void add_groups();
  void make_chain();
  void explore_chain(std::size_t target);
  std::size_t add_tiling(const std::vector<int>& tiling);
  void add_floor();
  void drop(ValueId value, PlanOptions& options) const;
  Choice refine(Choice choice, std::size_t target) const;
  Choice spill(const Choice& from, std::size_t target) const;
  Saving resting(ValueId value) const;
  std::optional<Choice> best_within(std::size_t bytes) const;

  const Graph& graph_;
  SearchOptions options_;
  std::vector<OpTraits> traits_;
  std::vector<bool> waits_;  // by value: crosses the turn and can be restored
  std::vector<bool> kept_;   // by value: the step's results
  bool halves_ = false;      // there are values that lose nothing in 16 bits
  std::optional<BlockChain> chain_;
  std::vector<Choice> choices_;  // exact, without a file
  std::optional<Choice> fastest_, smallest_, floor_;
};

}  // namespace surefit
