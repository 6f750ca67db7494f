// SPDX-License-Identifier: Apache-2.0
#include "plan/search.hpp"

namespace surefit {

PlanSearch::PlanSearch(const Graph& graph, const SearchOptions& options)
    : graph_(graph), options_(options) {
  for (const Form form : {Form::kFew, Form::kUsual, Form::kFrugal}) {
    Entry entry{form, graph.in_form(form, options.batch), nullptr};
    if (entry.graph || form == Form::kUsual) forms_.push_back(std::move(entry));
  }
}

FormSearch* PlanSearch::form(Form form) {
  for (Entry& entry : forms_) {
    if (entry.form != form) continue;
    if (!entry.search) {
      entry.search = std::make_unique<FormSearch>(entry.graph ? *entry.graph : graph_, options_);
    }
    return entry.search.get();
  }
  return nullptr;
}

// Frugal nodes take longer and hold less; those for few samples are faster than the usual ones
// unless the samples come in many groups.
Form PlanSearch::smallest_form() {
  return form(Form::kFrugal) != nullptr ? Form::kFrugal : Form::kUsual;
}

Choice PlanSearch::fastest() {
  Choice best = form(Form::kUsual)->fastest();
  if (FormSearch* few = form(Form::kFew);
      few != nullptr && few->fastest().seconds <= best.seconds) {
    best = few->fastest();
    best.options.form = Form::kFew;
  }
  return best;
}

Choice PlanSearch::floor() {
  Choice best = form(smallest_form())->floor();
  best.options.form = smallest_form();
  if (FormSearch* few = form(Form::kFew);
      few != nullptr && few->floor().live_bytes < best.live_bytes) {
    best = few->floor();
    best.options.form = Form::kFew;
  }
  return best;
}

std::optional<PlanSearch::Found> PlanSearch::plan_within(std::size_t arena_bytes) {
  std::optional<Found> best;
  const auto consider = [&](Form which, bool all_means) {
    FormSearch* search = form(which);
    auto found = search == nullptr ? std::nullopt : search->plan_within(arena_bytes, all_means);
    if (!found || (best && best->choice.seconds <= found->choice.seconds)) return;
    found->choice.options.form = found->plan.form = which;
    best = std::move(found);
  };
  consider(Form::kFew, false);
  if (best && best->choice.seconds <= form(Form::kFew)->fastest().seconds) return best;
  consider(Form::kUsual, false);
  if (best) return best;
  consider(Form::kFew, true);
  consider(smallest_form(), true);
  return best;
}

bool PlanSearch::easily_within(std::size_t arena_bytes) {
  FormSearch* few = form(Form::kFew);
  return (few != nullptr && few->easily_within(arena_bytes)) ||
         form(smallest_form())->easily_within(arena_bytes);
}

Plan PlanSearch::finish(const Choice& choice) {
  Choice own = choice;
  own.options.form = Form::kUsual;
  Plan plan = form(choice.options.form)->finish(own);
  plan.form = choice.options.form;
  return plan;
}

}  // namespace surefit
