// SPDX-License-Identifier: Apache-2.0
#include "plan/form_search.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "plan/cost.hpp"
#include "plan/schedule.hpp"
#include "plan/sketch.hpp"

namespace surefit {
namespace {

// Among plans that are this close in time, the smaller one wins: the constants are not more exact
// than that.
constexpr double kSameTime = 1.02;

}  // namespace

FormSearch::FormSearch(const Graph& graph, const SearchOptions& options)
    : graph_(graph), options_(options), traits_(traits_of(graph)) {
  if (options.batch < 1)
    throw ConfigError(fmt::format("[batch_size] expected at least 1; got {}", options.batch));
  if (options.threads < 1)
    throw ConfigError(fmt::format("[threads] expected at least 1; got {}", options.threads));
  graph.check();
  waits_.assign(graph.values().size(), false);
  for (const Node& node : graph.nodes()) {
    if (node.phase != Phase::kBackward) continue;
    for (const ValueId input : node.inputs) {
      const ValueId value = graph.root(input);
      waits_[static_cast<std::size_t>(value)] = restorable(graph, traits_, value);
    }
  }
  kept_.assign(graph.values().size(), false);
  for (const ValueId id : graph.kept()) {
    waits_[static_cast<std::size_t>(graph.root(id))] = false;
    kept_[static_cast<std::size_t>(graph.root(id))] = true;
  }
  for (const OpTraits& traits : traits_) halves_ = halves_ || traits.half != Half::kNo;
  add_groups();
}

PlanOptions FormSearch::base() const {
  PlanOptions options;
  options.batch = options_.batch;
  options.threads = options_.threads;
  if (halves_) {
    for (const Value& value : graph_.values()) options.saving.push_back(resting(value.id));
  }
  return options;
}

// How a value waits where nothing is done about it.
Saving FormSearch::resting(ValueId value) const {
  const NodeId producer = graph_.value(value).producer;
  const bool half = waits_[static_cast<std::size_t>(value)] &&
                    traits_[static_cast<std::size_t>(producer)].half != Half::kNo;
  return half ? Saving::kHalf : Saving::kKeep;
}

Choice FormSearch::evaluate(PlanOptions options) const {
  const Plan plan = sketch_plan(graph_, traits_, options);
  return {std::move(options), estimate_seconds(graph_, traits_, plan), plan.max_live_bytes};
}

// Rungs 0 and 2: addresses, order, samples in flight.
void FormSearch::add_groups() {
  const auto add = [&](std::int64_t group) {
    PlanOptions options = base();
    options.group = group;
    choices_.push_back(evaluate(options));
    if (!halves_) return;
    // In a loop that a group passes forward and backward nothing waits, and a second form is only
    // in the way.
    options.saving.clear();
    Choice plain = evaluate(std::move(options));
    if (plain.live_bytes < choices_.back().live_bytes) choices_.back() = std::move(plain);
  };
  if (options_.group > 0) return add(options_.group);
  for (std::int64_t group = options_.batch; group >= 1; group /= 2) add(group);
}

std::optional<Choice> FormSearch::best_within(std::size_t bytes) const {
  const Choice* fastest = nullptr;
  for (const Choice& choice : choices_) {
    if (choice.live_bytes > bytes) continue;
    if (fastest == nullptr || choice.seconds < fastest->seconds) fastest = &choice;
  }
  if (fastest == nullptr) return std::nullopt;
  const Choice* best = fastest;
  for (const Choice& choice : choices_) {
    if (choice.live_bytes < best->live_bytes && choice.seconds <= fastest->seconds * kSameTime)
      best = &choice;
  }
  return *best;
}

const Choice& FormSearch::fastest() {
  if (!fastest_) {
    // What costs next to nothing to recompute is not worth its memory, whatever the budget.
    const auto quickest = best_within(~std::size_t{0});
    for (const double share : {0.8, 0.65, 0.5})
      explore_chain(static_cast<std::size_t>(share * static_cast<double>(quickest->live_bytes)));
    fastest_ = best_within(~std::size_t{0});
  }
  return *fastest_;
}

void FormSearch::make_chain() {
  if (!chain_) chain_ = make_block_chain(graph_, traits_, options_.batch, options_.threads);
}

// Adds the plan of a tiling, and the same with small groups where the tiling has whole batches:
// between sums over the batch there is still something to save. Returns the smaller one's bytes.
std::size_t FormSearch::add_tiling(const std::vector<int>& tiling) {
  PlanOptions options = chain_->plan_options(tiling, base(), graph_.values().size());
  choices_.push_back(evaluate(options));
  const std::size_t whole = choices_.back().live_bytes;
  const std::int64_t small = std::max<std::int64_t>(options_.threads, options_.batch / 8);
  bool changed = false;
  for (Stretch& stretch : options.stretches) {
    changed = changed || stretch.group > small;
    stretch.group = std::min(stretch.group, small);
  }
  if (!changed) return whole;
  choices_.push_back(evaluate(std::move(options)));
  return std::min(whole, choices_.back().live_bytes);
}

// Rung 3: the chain's own model of memory is coarser than the plan's, so its target is moved until
// the plan fits.
void FormSearch::explore_chain(std::size_t target) {
  constexpr int kTries = 7;
  if (options_.group > 0) return;
  make_chain();
  std::size_t low = 0, high = 0;  // chain targets whose plans fit, and do not
  std::size_t aim = target;
  for (int i = 0; i < kTries; ++i) {
    const auto tiling = tile_chain(static_cast<int>(chain_->cuts.size()), chain_->options, aim);
    bool fits = false;
    if (tiling) fits = add_tiling(*tiling) <= target;
    // Where no tiling fits, the model is too careful: it needs more room than the plan will.
    (fits || !tiling ? low : high) = aim;
    if (high == 0) {
      aim += aim / 2;
    } else if (low == 0) {
      aim = aim * 2 / 3;
    } else {
      aim = low + (high - low) / 2;
    }
  }
}

// What only the recomputation of a dropped value would read is dropped with it.
void FormSearch::drop(ValueId value, PlanOptions& options) const {
  options.saving[static_cast<std::size_t>(value)] = Saving::kRecompute;
  for (const ValueId input : graph_.node(graph_.value(value).producer).inputs) {
    const ValueId source = graph_.root(input);
    const auto at = static_cast<std::size_t>(source);
    if (options.saving[at] == Saving::kKeep && !waits_[at] && !kept_[at] &&
        restorable(graph_, traits_, source)) {
      drop(source, options);
    }
  }
}

// Value by value, what blocks cannot express: drops or keeps one more while that brings the plan
// nearer to the target, or, once it fits, makes it faster. The largest first.
Choice FormSearch::refine(Choice choice, std::size_t target) const {
  constexpr std::size_t kMostValues = 60;
  constexpr int kTries = 150;
  if (choice.options.saving.empty())
    choice.options.saving.assign(graph_.values().size(), Saving::kKeep);
  std::vector<std::pair<std::size_t, ValueId>> values;
  for (const Value& value : graph_.values()) {
    if (value.view_of == kNone && restorable(graph_, traits_, value.id) &&
        !kept_[static_cast<std::size_t>(value.id)]) {
      values.emplace_back(value.type.stored_bytes(), value.id);
    }
  }
  std::stable_sort(values.begin(), values.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (values.size() > kMostValues) values.resize(kMostValues);
  const auto better = [&](const Choice& a, const Choice& b) {
    const std::size_t over_a = a.live_bytes > target ? a.live_bytes - target : 0;
    const std::size_t over_b = b.live_bytes > target ? b.live_bytes - target : 0;
    return over_a != over_b ? over_a < over_b : a.seconds < b.seconds;
  };
  int tries = 0;
  for (bool improved = true; improved;) {
    improved = false;
    for (const auto& [bytes, value] : values) {
      if (++tries > kTries) return choice;
      PlanOptions options = choice.options;
      Saving& how = options.saving[static_cast<std::size_t>(value)];
      if (how == resting(value)) {
        drop(value, options);
      } else if (how == Saving::kRecompute) {
        how = resting(value);
      } else {
        continue;
      }
      Choice next = evaluate(std::move(options));
      if (!better(next, choice)) continue;
      choice = std::move(next);
      improved = true;
    }
  }
  return choice;
}

void FormSearch::add_floor() {
  if (options_.group > 0) return;
  make_chain();
  constexpr int kTries = 14;
  std::size_t low = 1, high = 0;
  for (const ChainOption& option : chain_->options) high = std::max(high, option.working);
  high *= 2;
  for (int i = 0; i < kTries && high - low > high / 64; ++i) {
    const std::size_t aim = low + (high - low) / 2;
    const auto tiling = tile_chain(static_cast<int>(chain_->cuts.size()), chain_->options, aim);
    if (tiling) {
      add_tiling(*tiling);
      high = aim;
    } else {
      low = aim;
    }
  }
}

const Choice& FormSearch::smallest() {
  if (!smallest_) {
    add_floor();
    const auto smaller = [](const Choice& a, const Choice& b) {
      return a.live_bytes < b.live_bytes;
    };
    const Choice smallest = *std::min_element(choices_.begin(), choices_.end(), smaller),
                 whole = choices_.front();
    choices_.push_back(refine(smallest, 0));
    choices_.push_back(refine(whole, 0));
    smallest_ = *std::min_element(choices_.begin(), choices_.end(), smaller);
  }
  return *smallest_;
}

// Rung 5: what is alive at the peak and waits for the backward pass leaves the arena, the largest
// first, until the plan fits or nothing is left to move.
Choice FormSearch::spill(const Choice& from, std::size_t target) const {
  Choice best = from;
  PlanOptions options = from.options;
  if (options.saving.empty()) options.saving.assign(graph_.values().size(), Saving::kKeep);
  for (;;) {
    const Plan plan = sketch_plan(graph_, traits_, options);
    const Choice here{options, estimate_seconds(graph_, traits_, plan), plan.max_live_bytes};
    if (here.live_bytes < best.live_bytes) best = here;
    if (here.live_bytes <= target) return here;
    const Buffer* largest = nullptr;
    for (const Buffer& buffer : plan.buffers) {
      if (buffer.value == kNone || buffer.persistent ||
          !waits_[static_cast<std::size_t>(buffer.value)])
        continue;
      if (options.saving[static_cast<std::size_t>(buffer.value)] != resting(buffer.value)) continue;
      const bool at_peak = buffer.first <= plan.peak_instance && plan.peak_instance <= buffer.last;
      if (at_peak && (largest == nullptr || buffer.bytes > largest->bytes)) largest = &buffer;
    }
    if (largest == nullptr) return best;
    options.saving[static_cast<std::size_t>(largest->value)] = Saving::kSpill;
  }
}

const Choice& FormSearch::floor() {
  if (!floor_) {
    floor_ = smallest();
    for (const Choice& from : {smallest(), fastest(), choices_.front()}) {
      const Choice moved = options_.allow_spill ? spill(from, 0) : from;
      if (moved.live_bytes < floor_->live_bytes) floor_ = moved;
    }
  }
  return *floor_;
}

std::optional<Choice> FormSearch::within(std::size_t arena_bytes, bool all_means) {
  if (fastest().live_bytes <= arena_bytes) return fastest();
  explore_chain(arena_bytes);
  if (!best_within(arena_bytes)) {
    if (!all_means) return std::nullopt;
    smallest();
  }
  choices_.push_back(refine(fastest(), arena_bytes));
  if (auto best = best_within(arena_bytes)) {
    choices_.push_back(refine(*best, arena_bytes));
    return best_within(arena_bytes);
  }
  std::optional<Choice> best;
  const auto consider = [&](const Choice& choice) {
    if (choice.live_bytes <= arena_bytes && (!best || choice.seconds < best->seconds))
      best = choice;
  };
  if (options_.allow_spill) {
    // Less recomputation and more file, or the other way round.
    consider(spill(choices_.front(), arena_bytes));
    consider(spill(fastest(), arena_bytes));
    consider(spill(smallest(), arena_bytes));
  }
  return best;
}

std::optional<FormSearch::Found> FormSearch::plan_within(std::size_t arena_bytes, bool all_means) {
  constexpr int kTries = 4, kMostPacked = 12;
  std::size_t target = arena_bytes;
  for (int i = 0; i < kTries; ++i) {
    auto choice = within(target, all_means);
    if (!choice) break;
    Plan plan = finish(*choice);
    if (plan.arena_bytes <= arena_bytes) return Found{std::move(*choice), std::move(plan)};
    target -= std::min(target, plan.arena_bytes - arena_bytes);
  }
  if (!all_means) return std::nullopt;
  // Near the floor there is nothing between too large and nothing: see how the others pack.
  std::vector<const Choice*> others;
  for (const Choice& choice : choices_) {
    if (choice.live_bytes <= arena_bytes) others.push_back(&choice);
  }
  if (options_.allow_spill && floor().live_bytes <= arena_bytes) others.push_back(&floor());
  std::stable_sort(others.begin(), others.end(),
                   [](const Choice* a, const Choice* b) { return a->live_bytes < b->live_bytes; });
  for (int i = 0; i < kMostPacked && i < static_cast<int>(others.size()); ++i) {
    Plan plan = finish(*others[static_cast<std::size_t>(i)]);
    if (plan.arena_bytes <= arena_bytes)
      return Found{*others[static_cast<std::size_t>(i)], std::move(plan)};
  }
  return std::nullopt;
}

bool FormSearch::easily_within(std::size_t arena_bytes) {
  const auto fits = [&] {
    const auto choice = best_within(arena_bytes);
    return choice && finish(*choice).arena_bytes <= arena_bytes;
  };
  if (fits()) return true;
  explore_chain(arena_bytes);
  if (fits()) return true;
  add_floor();
  return fits();
}

Plan FormSearch::finish(const Choice& choice) const {
  return make_plan(graph_, choice.options);
}

}  // namespace surefit
