// SPDX-License-Identifier: Apache-2.0
#include "train/memory_plan.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/units.hpp"
#include "plan/search.hpp"

namespace surefit {
namespace {

std::uint64_t sum_of(const std::vector<LedgerEntry>& entries) {
  std::uint64_t sum = 0;
  for (const LedgerEntry& entry : entries) sum += entry.bytes;
  return sum;
}

std::uint64_t pages(std::uint64_t bytes) {
  constexpr std::uint64_t kPage = 4096;
  return (bytes + kPage - 1) / kPage * kPage;
}

SearchOptions search_options(const MemoryRequest& request, std::int64_t batch) {
  SearchOptions options;
  options.batch = batch;
  options.threads = request.threads;
  options.group = request.group;
  options.allow_spill = request.allow_spill;
  return options;
}

// The arena's share of each category at the fullest moment; gaps between buffers count as scratch.
void enter_arena(const Plan& plan, std::size_t arena_bytes, std::vector<LedgerEntry>& ledger) {
  std::array<std::uint64_t, kCategoryCount> sums{};
  std::uint64_t all = 0;
  // Buffers that share an address by agreement count once, for the category of the larger.
  std::vector<const Buffer*> alive = largest_at_peak(plan, plan.buffers.size());
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  for (const Buffer* buffer : alive) {
    const bool counted = std::any_of(taken.begin(), taken.end(), [&](const auto& range) {
      return buffer->offset < range.second && range.first < buffer->offset + buffer->bytes;
    });
    if (counted) continue;
    taken.emplace_back(buffer->offset, buffer->offset + buffer->bytes);
    sums[static_cast<std::size_t>(buffer->category)] += buffer->bytes;
    all += buffer->bytes;
  }
  sums[static_cast<std::size_t>(Category::kScratch)] +=
      pages(arena_bytes) - std::min<std::uint64_t>(all, pages(arena_bytes));
  for (int c = 0; c < kCategoryCount; ++c) {
    const auto category = static_cast<Category>(c);
    if (sums[static_cast<std::size_t>(c)] > 0)
      ledger.push_back({fmt::format("{} of a step", name_of(category)), category,
                        sums[static_cast<std::size_t>(c)], true});
  }
}

// As --memory takes it, rounded up.
std::string as_option(std::uint64_t bytes) {
  return fmt::format("{}M", (bytes + (1 << 20) - 1) >> 20);
}

std::string percent(double factor) {
  return fmt::format("{:+.0f} % time", (factor - 1) * 100);
}

// A batch that fits, found in a moment: half the wanted one, or a quarter, and so on. 0 where not
// even one sample does.
std::int64_t fitting_batch(const MemoryRequest& request) {
  const std::uint64_t outside = outside_bytes(request);
  if (outside >= request.budget) return 0;
  const std::size_t room = (request.budget - outside) / 4096 * 4096;
  for (std::int64_t batch = request.batch / 2; batch >= 1; batch /= 2) {
    PlanSearch search(*request.main, search_options(request, batch));
    if (search.easily_within(room) || (batch == 1 && search.plan_within(room))) return batch;
  }
  return 0;
}

// Three ways out of a refusal, each with its bytes and its time.
std::string ways_out(const MemoryRequest& request, std::uint64_t floor, double floor_slowdown) {
  std::string text = fmt::format(
      "  1. raise the budget to the floor: --memory {} ({} more, {} against full speed)\n",
      as_option(floor), format_bytes(floor - request.budget), percent(floor_slowdown));
  if (const std::int64_t batch = fitting_batch(request); batch > 0) {
    text += fmt::format(
        "  2. a smaller batch: --batch-size {} fits (another training, not only a slower one)\n",
        batch);
  } else {
    text += "  2. a smaller batch does not help: not even one sample fits\n";
  }
  std::uint64_t slots = 0;
  for (const LedgerEntry& entry : request.outside) {
    if (entry.category == Category::kOptimizer) slots += entry.bytes;
  }
  std::string third;
  const auto add = [&](const std::string& way) { third += (third.empty() ? "" : "; or ") + way; };
  for (const Offer& offer : request.offers ? request.offers() : std::vector<Offer>()) {
    if (offer.floor_bytes >= floor) continue;
    add(fmt::format("consent to other bits: {}, floor {} (-{})", offer.way,
                    format_bytes(offer.floor_bytes), format_bytes(floor - offer.floor_bytes)));
  }
  if (slots > 0)
    add(fmt::format("an optimizer without state (other training): --optimizer sgd, -{}",
                    format_bytes(slots)));
  if (third.empty()) third = "a smaller picture (--resize) or a model with fewer channels";
  return text + "  3. " + third + "\n";
}

std::int64_t smallest_group(const Plan& plan) {
  std::int64_t least = plan.batch;
  for (const Segment& segment : plan.segments) least = std::min(least, segment.group);
  return least;
}

// What the frugal form of the graph no longer holds of its largest value.
std::uint64_t sliced_bytes(const Graph& graph, std::int64_t batch) {
  const std::optional<Graph> frugal = graph.in_form(Form::kFrugal, batch);
  std::uint64_t most = 0;
  for (const Value& value : graph.values()) {
    const std::uint64_t before = value.type.stored_bytes(),
                        after = frugal->value(value.id).type.stored_bytes();
    most = std::max(most, before - std::min(before, after));
  }
  return most;
}

// What the chosen plan does that the fastest does not.
std::vector<Rung> rungs_of(const Graph& graph, const Plan& plan, const Plan& fastest) {
  std::uint64_t recomputed = 0, spilled = 0, halved = 0;
  for (const Instance& instance : plan.instances) {
    if (!instance.again) continue;
    for (const int b : instance.outputs) {
      const Buffer& buffer = plan.buffers[static_cast<std::size_t>(b)];
      const std::uint64_t bytes =
          buffer.sample_bytes == 0 ? buffer.bytes
                                   : buffer.sample_bytes * static_cast<std::uint64_t>(plan.batch);
      (instance.action == Action::kFetch    ? spilled
       : instance.action == Action::kExpand ? halved
                                            : recomputed) += bytes;
    }
  }
  std::vector<Rung> rungs;
  if (smallest_group(plan) < smallest_group(fastest)) {
    rungs.push_back(
        {fmt::format("fewer samples in flight: {} of {}", smallest_group(plan), plan.batch),
         fastest.arena_bytes - std::min(fastest.arena_bytes, plan.arena_bytes)});
  }
  if (plan.form == Form::kFrugal)
    rungs.push_back({"weights of convolutions transformed slice by slice",
                     sliced_bytes(graph, plan.batch)});
  if (recomputed > 0) rungs.push_back({"recompute in the backward pass", recomputed});
  if (spilled > 0) rungs.push_back({"spill to a file", spilled});
  if (halved > 0) rungs.push_back({"16-bit storage of activations", halved / 2});
  return rungs;
}

}  // namespace

std::uint64_t runtime_bytes(const Graph& graph, int threads) {
  // Measured on the zoo, a little above the largest: the test of predictions holds it there.
  constexpr std::uint64_t kProcess = std::uint64_t{12} << 20, kThread = std::uint64_t{320} << 10,
                          kNode = 5 << 9;
  return (threads > 0 ? kProcess : 0) + kThread * static_cast<std::uint64_t>(threads) +
         kNode * graph.nodes().size();
}

std::uint64_t outside_bytes(const MemoryRequest& request) {
  std::uint64_t runtime = runtime_bytes(*request.main, request.threads);
  if (request.validation != nullptr) runtime += runtime_bytes(*request.validation, 0);
  return sum_of(request.outside) + runtime;
}

std::vector<const Buffer*> largest_at_peak(const Plan& plan, std::size_t count) {
  std::vector<const Buffer*> alive;
  for (const Buffer& buffer : plan.buffers) {
    if (!buffer.persistent && buffer.first <= plan.peak_instance &&
        plan.peak_instance <= buffer.last)
      alive.push_back(&buffer);
  }
  std::stable_sort(alive.begin(), alive.end(),
                   [](const Buffer* a, const Buffer* b) { return a->bytes > b->bytes; });
  if (alive.size() > count) alive.resize(count);
  return alive;
}

std::size_t MemoryPlan::arena_bytes() const {
  return std::max(main.arena_bytes, validation ? validation->arena_bytes : 0);
}

std::uint64_t MemoryPlan::predicted_bytes() const {
  return sum_of(ledger);
}

std::array<std::uint64_t, kCategoryCount> MemoryPlan::by_category() const {
  std::array<std::uint64_t, kCategoryCount> sums{};
  for (const LedgerEntry& entry : ledger)
    sums[static_cast<std::size_t>(entry.category)] += entry.bytes;
  return sums;
}

std::string MemoryPlan::peak_layer() const {
  const Instance& instance = main.instances[static_cast<std::size_t>(main.peak_instance)];
  return fmt::format("{} ({})", instance.layer, instance.kind);
}

void refuse(const MemoryRequest& request) {
  PlanSearch search(*request.main, search_options(request, request.batch));
  const std::uint64_t need =
      outside_bytes(request) + pages(search.finish(search.fastest()).arena_bytes);
  const Choice& least = search.floor();
  const Plan plan = search.finish(least);
  std::size_t arena = plan.arena_bytes;
  if (request.validation != nullptr) {
    PlanSearch other(*request.validation, search_options(request, request.validation_batch));
    arena = std::max(arena, other.finish(other.floor()).arena_bytes);
  }
  const std::uint64_t floor = outside_bytes(request) + pages(arena);
  const double slowdown = least.seconds / search.fastest().seconds;
  std::string text = fmt::format(
      "[memory] no plan fits: full speed needs {}, the budget is {}{}, the floor (same bits, least "
      "memory) is {}\n",
      format_bytes(need), format_bytes(request.budget),
      request.budget_source.empty() ? "" : " (" + request.budget_source + ")", format_bytes(floor));
  if (!request.explain) throw MemoryRefused(text, need, request.budget, floor);
  text += "largest at the floor's peak:\n";
  for (const LedgerEntry& entry : request.outside)
    if (entry.bytes >= floor / 50)
      text += fmt::format("  {:>10}  {}\n", format_bytes(entry.bytes), entry.name);
  for (const Buffer* buffer : largest_at_peak(plan, 10)) {
    text += fmt::format("  {:>10}  {} ({})\n", format_bytes(buffer->bytes), buffer->name,
                        name_of(buffer->category));
  }
  text += "ways out:\n" + ways_out(request, std::max(floor, request.budget), slowdown);
  text.pop_back();
  throw MemoryRefused(text, need, request.budget, floor);
}

MemoryPlan plan_memory(const MemoryRequest& request, bool with_floor) {
  if (auto plan = find_plan(request, with_floor)) return std::move(*plan);
  refuse(request);
}

std::uint64_t floor_bytes(const MemoryRequest& request) {
  PlanSearch search(*request.main, search_options(request, request.batch));
  return outside_bytes(request) + pages(search.finish(search.floor()).arena_bytes);
}

std::optional<MemoryPlan> find_plan(const MemoryRequest& request, bool with_floor) {
  MemoryPlan result;
  result.budget = request.budget;
  const std::uint64_t outside = outside_bytes(request);
  PlanSearch search(*request.main, search_options(request, request.batch));
  Plan fastest = search.finish(search.fastest());
  std::optional<Plan> validation_fastest;
  std::size_t arena = fastest.arena_bytes;
  if (request.validation != nullptr) {
    PlanSearch other(*request.validation, search_options(request, request.validation_batch));
    validation_fastest = other.finish(other.fastest());
    arena = std::max(arena, validation_fastest->arena_bytes);
  }
  result.full_speed_bytes = outside + pages(arena);
  const bool fits = result.full_speed_bytes <= request.budget;
  if (!fits && outside >= request.budget) return std::nullopt;
  if (fits) {
    result.main = fastest;
    result.rungs = rungs_of(*request.main, fastest, fastest);
    result.validation = std::move(validation_fastest);
  } else {
    const std::size_t room = (request.budget - outside) / 4096 * 4096;
    auto found = search.plan_within(room);
    if (!found) return std::nullopt;
    // Constants are not so exact that a plan which holds less could count as faster.
    result.slowdown = std::max(1.0, found->choice.seconds / search.fastest().seconds);
    result.main = std::move(found->plan);
    result.rungs = rungs_of(*request.main, result.main, fastest);
    if (request.validation != nullptr) {
      PlanSearch other(*request.validation, search_options(request, request.validation_batch));
      auto fitting = other.plan_within(room);
      if (!fitting) return std::nullopt;
      result.validation = std::move(fitting->plan);
    }
  }
  if (with_floor) result.floor_bytes = outside + pages(search.finish(search.floor()).arena_bytes);
  result.ledger = request.outside;
  const std::uint64_t runtime = outside - sum_of(request.outside);
  result.ledger.push_back(
      {"code, libraries, stacks, graph and kernels", Category::kRuntime, runtime});
  enter_arena(result.main, result.arena_bytes(), result.ledger);
  return result;
}

std::int64_t largest_batch(MemoryRequest request) {
  const auto fits = [&](std::int64_t batch) {
    const std::uint64_t outside = outside_bytes(request);
    if (outside >= request.budget) return false;
    PlanSearch search(*request.main, search_options(request, batch));
    return search.plan_within((request.budget - outside) / 4096 * 4096).has_value();
  };
  constexpr std::int64_t kMost = 1 << 16;
  std::int64_t low = 0, high = 1;
  while (high <= kMost && fits(high)) {
    low = high;
    high *= 2;
  }
  high = std::min(high, kMost + 1);
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace surefit
