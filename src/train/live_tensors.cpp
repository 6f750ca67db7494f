// SPDX-License-Identifier: Apache-2.0
#include "train/live_tensors.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace surefit {
namespace {

std::string layer_of(const std::string& parameter) {
  return parameter.substr(0, parameter.rfind('/'));
}

class Listing {
 public:
  explicit Listing(std::vector<LiveTensor>& list) : list_(list) {}
  void add(std::string layer, std::string what, Category category, std::uint64_t bytes,
           std::string from = {}, std::string until = {}) {
    if (bytes == 0) return;
    list_.push_back({std::move(layer), std::move(what), std::string(name_of(category)), bytes,
                     std::move(from), std::move(until)});
    sum_ += bytes;
  }
  // What an entry of the ledger has besides the parts listed since the last call.
  void close(const char* what, Category category, std::uint64_t entry) {
    SUREFIT_CHECK(sum_ <= entry, "{} bytes listed where the ledger has {}", sum_, entry);
    const std::uint64_t rest = entry - sum_;
    add({}, what, category, rest);
    sum_ = 0;
  }

 private:
  std::vector<LiveTensor>& list_;
  std::uint64_t sum_ = 0;
};

void add_arena(const Plan& plan, int moment, Listing& listing) {
  const auto when = [&](int instance) {
    const Instance& at = plan.instances[static_cast<std::size_t>(instance)];
    return fmt::format("{} {}", at.layer, at.kind);
  };
  std::vector<const Buffer*> alive;
  for (const Buffer& buffer : plan.buffers) {
    if (!buffer.persistent && buffer.first <= moment && moment <= buffer.last)
      alive.push_back(&buffer);
  }
  std::stable_sort(alive.begin(), alive.end(),
                   [](const Buffer* a, const Buffer* b) { return a->bytes > b->bytes; });
  // Buffers that share an address by agreement count once.
  std::vector<const Buffer*> counted;
  for (const Buffer* buffer : alive) {
    const bool shared = std::any_of(counted.begin(), counted.end(), [&](const Buffer* other) {
      return buffer->offset < other->offset + other->bytes &&
             other->offset < buffer->offset + buffer->bytes;
    });
    if (shared) continue;
    counted.push_back(buffer);
    listing.add(buffer->layer, buffer->name, buffer->category, buffer->bytes, when(buffer->first),
                when(buffer->last));
  }
}

}  // namespace

std::vector<LiveTensor> live_tensors(const std::vector<LedgerEntry>& ledger, const Plan& plan,
                                     const ParameterStore& store, int moment) {
  std::vector<LiveTensor> list;
  Listing listing(list);
  std::uint64_t arena = 0;
  for (const LedgerEntry& entry : ledger) {
    if (entry.of_step) {
      arena += entry.bytes;
      continue;
    }
    const bool weights = entry.category == Category::kWeights;
    for (std::size_t i = 0; i < store.count(); ++i) {
      const Parameter& parameter = store.parameter(i);
      const std::string layer = layer_of(parameter.name);
      if (weights)
        listing.add(layer, parameter.name, entry.category,
                    parameter.stored_count() * sizeof(float));
      if (entry.category != Category::kOptimizer) continue;
      for (std::size_t s = 0; s < store.slots(i).size(); ++s)
        listing.add(layer, fmt::format("{}/{}", parameter.name, store.slots(i)[s].name),
                    entry.category, store.slot_stored_bytes(i, s));
    }
    const bool parts = weights || entry.category == Category::kOptimizer;
    listing.close(parts ? "padding" : entry.name.c_str(), entry.category, entry.bytes);
  }
  add_arena(plan, moment, listing);
  listing.close("room of the arena that is free at this moment", Category::kScratch, arena);
  return list;
}

}  // namespace surefit
