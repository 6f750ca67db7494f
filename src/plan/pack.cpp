// SPDX-License-Identifier: Apache-2.0
#include "plan/pack.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>

#include "base/philox.hpp"

namespace surefit {
namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

template <typename A, typename B>
bool overlap_in_time(const A& a, const B& b) {
  return a.first <= b.last && b.first <= a.last;
}

// For each item the bytes of those that meet it in time.
std::vector<double> neighbour_bytes(const std::vector<PackItem>& items) {
  std::vector<double> bytes(items.size(), 0);
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (std::size_t j = i + 1; j < items.size(); ++j) {
      if (!overlap_in_time(items[i], items[j])) continue;
      bytes[i] += static_cast<double>(items[j].bytes);
      bytes[j] += static_cast<double>(items[i].bytes);
    }
  }
  return bytes;
}

enum class Fit { kTightest, kLowest };  // which of the gaps that are large enough

// Places items in the given order, each into a gap between those already placed. Gives up as soon
// as they reach beyond `most`.
std::size_t place(std::vector<PackItem>& items, const std::vector<int>& order, Fit fit,
                  std::size_t most) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  struct Placed {
    std::size_t from, to;
    int first, last;
  };
  std::vector<Placed> placed;  // by where they begin
  placed.reserve(items.size());
  std::size_t arena = 0;
  for (const int index : order) {
    PackItem& item = items[static_cast<std::size_t>(index)];
    const std::size_t bytes = aligned(item.bytes);
    std::size_t best_gap = kNone, best = 0, end = 0;
    for (const Placed& other : placed) {
      if (!overlap_in_time(other, item)) continue;
      if (other.from > end && other.from - end >= bytes && other.from - end < best_gap) {
        best_gap = other.from - end;
        best = end;
        if (fit == Fit::kLowest) break;
      }
      end = std::max(end, other.to);
    }
    item.offset = best_gap == kNone ? end : best;
    arena = std::max(arena, item.offset + bytes);
    if (arena > most) break;
    const auto behind =
        std::upper_bound(placed.begin(), placed.end(), item.offset,
                         [](std::size_t from, const Placed& other) { return from < other.from; });
    placed.insert(behind, {item.offset, item.offset + bytes, item.first, item.last});
  }
  return arena;
}

}  // namespace

std::size_t max_live(const std::vector<PackItem>& items, int* when) {
  int end = 0;
  for (const PackItem& item : items) end = std::max(end, item.last + 2);
  std::vector<std::int64_t> change(static_cast<std::size_t>(end), 0);
  for (const PackItem& item : items) {
    change[static_cast<std::size_t>(item.first)] += static_cast<std::int64_t>(aligned(item.bytes));
    change[static_cast<std::size_t>(item.last) + 1] -=
        static_cast<std::int64_t>(aligned(item.bytes));
  }
  std::int64_t live = 0, most = 0;
  for (std::size_t time = 0; time < change.size(); ++time) {
    live += change[time];
    if (live > most) {
      most = live;
      if (when != nullptr) *when = static_cast<int>(time);
    }
  }
  return static_cast<std::size_t>(most);
}

std::size_t pack(std::vector<PackItem>& items) {
  const std::size_t bound = max_live(items);
  std::vector<int> order(items.size());
  std::iota(order.begin(), order.end(), 0);

  std::vector<int> best_order;
  std::vector<std::size_t> best_offsets(items.size(), 0);
  std::size_t best = std::numeric_limits<std::size_t>::max();
  Fit best_fit = Fit::kTightest;
  const auto attempt = [&](const std::vector<int>& candidate, Fit fit) {
    const std::size_t arena = place(items, candidate, fit, best);
    // Equals are taken too: the climb crosses plateaus, where most small graphs get stuck
    // otherwise.
    if (arena > best) return;
    best = arena;
    best_order = candidate;
    best_fit = fit;
    for (std::size_t i = 0; i < items.size(); ++i) best_offsets[i] = items[i].offset;
  };
  const auto by = [&](const auto& key) {
    std::vector<int> candidate = order;
    std::stable_sort(candidate.begin(), candidate.end(), [&](int a, int b) {
      return key(items[static_cast<std::size_t>(a)], a) >
             key(items[static_cast<std::size_t>(b)], b);
    });
    for (const Fit fit : {Fit::kTightest, Fit::kLowest}) {
      if (best > bound) attempt(candidate, fit);
    }
  };
  const auto duration = [](const PackItem& item) {
    return static_cast<double>(item.last - item.first + 1);
  };
  by([](const PackItem& item, int) { return static_cast<double>(item.bytes); });
  if (best > bound)
    by([&](const PackItem& item, int) {
      return duration(item) * 1e12 + static_cast<double>(item.bytes);
    });
  if (best > bound)
    by([&](const PackItem& item, int) { return static_cast<double>(item.bytes) * duration(item); });
  if (best > bound) {
    const std::vector<double> neighbours = neighbour_bytes(items);
    by([&](const PackItem&, int index) { return neighbours[static_cast<std::size_t>(index)]; });
  }
  if (best > bound) by([](const PackItem& item, int) { return -static_cast<double>(item.first); });

  // Hill-climb: move the item that ends highest to an earlier place. The walk is keyed, so plans
  // are reproducible.
  const Philox stream(0, Purpose::kTest, 0, 0, items.size());
  // About constant work: a placement costs its conflicts, which grow with the square of the items.
  const std::size_t budget =
      std::clamp<std::size_t>(40000000 / (items.size() * items.size() + 1), 150, 4000);
  for (std::uint64_t attempt_index = 0; best > bound && attempt_index < budget; ++attempt_index) {
    std::vector<int> candidate = best_order;
    const auto top = [&](std::size_t place) {
      const auto index = static_cast<std::size_t>(candidate[place]);
      return best_offsets[index] + aligned(items[index].bytes);
    };
    std::size_t highest = 0;
    for (std::size_t i = 0; i < candidate.size(); ++i) {
      if (top(i) > top(highest)) highest = i;
    }
    if (stream.word(attempt_index * 4) % 4 == 0)
      highest = stream.word(attempt_index * 4 + 1) % candidate.size();
    if (highest == 0) continue;
    const std::size_t to = stream.word(attempt_index * 4 + 2) % highest;
    const int moved = candidate[highest];
    candidate.erase(candidate.begin() + static_cast<std::ptrdiff_t>(highest));
    candidate.insert(candidate.begin() + static_cast<std::ptrdiff_t>(to), moved);
    attempt(candidate, best_fit);
  }
  for (std::size_t i = 0; i < items.size(); ++i) items[i].offset = best_offsets[i];
  return best == std::numeric_limits<std::size_t>::max() ? 0 : best;
}

}  // namespace surefit
