// SPDX-License-Identifier: Apache-2.0
// The budget search: the fastest plan that fits, in whichever form of the graph it is.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "plan/form_search.hpp"

namespace surefit {

class PlanSearch {
 public:
  PlanSearch(const Graph& graph, const SearchOptions& options);

  // The smallest of the fastest.
  Choice fastest();
  // The least memory of all.
  Choice floor();
  using Found = FormSearch::Found;
  // The fastest that fits into an arena of this many bytes, packed, or nothing.
  std::optional<Found> plan_within(std::size_t arena_bytes);
  // Whether something fits that is quickly found; more may with the whole search.
  bool easily_within(std::size_t arena_bytes);
  // A packed and verified plan.
  Plan finish(const Choice& choice);

  // The plans of one form; nothing where the graph does not have it.
  FormSearch* form(Form form);

 private:
  Form smallest_form();

  struct Entry {
    Form form = Form::kUsual;
    std::optional<Graph> graph;          // nothing: the caller's
    std::unique_ptr<FormSearch> search;  // made when it is asked for
  };

  const Graph& graph_;
  SearchOptions options_;
  std::vector<Entry> forms_;  // that the graph has; searches point into it
};

}  // namespace surefit
