// SPDX-License-Identifier: Apache-2.0
#include "data/reader.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "base/check.hpp"
#include "base/thread_pool.hpp"
#include "base/units.hpp"
#include "data/store.hpp"

namespace surefit::data {
namespace {

// The batch verb that decides the rows, below verbs that only choose among batches.
const Batch* find_batch(const Node& top) {
  const Node* node = &top;
  while (node != nullptr) {
    if (const auto* batch = dynamic_cast<const Batch*>(node)) return batch;
    node = node->inputs().size() == 1 ? &node->input() : nullptr;
  }
  return nullptr;
}

void collect_buffers(const Node& node, std::vector<LedgerEntry>& entries) {
  for (const auto& input : node.inputs()) collect_buffers(*input, entries);
  for (LedgerEntry& entry : node.buffers()) entries.push_back(std::move(entry));
}

// Gives every cache verb its share of `room`; false when there is none.
bool limit_caches(const Node& node, std::uint64_t room) {
  node.limit_cache(room);
  bool found = node.holds_cache();
  for (const auto& input : node.inputs())
    found = limit_caches(*input, room / node.inputs().size()) || found;
  return found;
}

}  // namespace

BatchReader::BatchReader(const Dataset& dataset, ReaderOptions options)
    : node_(dataset.node()),
      options_(options),
      meter_(std::make_unique<Meter>(options.budget_bytes)) {
  if (options_.env == nullptr) options_.env = &Env::posix();
  if (options_.on_bad_sample == OnBadSample::kSkip) {
    const Batch* batch = find_batch(*node_);
    quarantine_ = std::make_unique<Quarantine>(options_.max_bad_share,
                                               batch ? batch->input().size() : node_->size());
  }
  if (const Batch* batch = find_batch(*node_)) batch_size_ = batch->batch_size();
  for (const ComponentSpec& component : node_->spec()) {
    if (component.dims.rank() == 0) {
      throw ConfigError(
          fmt::format("[data] elements are single samples, {}; expected batches; add "
                      ".batch(n) to {}",
                      to_string(node_->spec()), describe_pipeline(*node_)));
    }
    ComponentSpec row{component.dtype, Dims(component.dims.values().subspan(1))};
    if (!row.dims.fixed()) {
      throw ConfigError(
          fmt::format("[data] samples have no fixed extents, {} {}; resize them before "
                      "batch in {}",
                      name_of(row.dtype), row.dims.to_string(), describe_pipeline(*node_)));
    }
    spec_.push_back(row);
  }
  place_cache();
  element_ = std::make_unique<Sample>(meter_.get());
}

BatchReader::~BatchReader() = default;

// The budget is split once: what the cache may take is taken from what decoding and queues may
// take, so that the two together can never exceed it.
void BatchReader::place_cache() {
  const bool limited = options_.budget_bytes != ~std::uint64_t{0};
  const std::uint64_t scratch = std::max<std::uint64_t>(
      options_.budget_bytes / 4, static_cast<std::uint64_t>(std::max(options_.threads, 1)) << 22);
  const std::uint64_t room = !limited                          ? available_memory_bytes() / 2
                             : options_.budget_bytes > scratch ? options_.budget_bytes - scratch
                                                               : 0;
  const bool own = limit_caches(*node_, room);
  const Node* place =
      own || options_.cache == CacheMode::kNone ? nullptr : find_cache_place(*node_);
  if (place == nullptr && !own) return;
  if (place != nullptr) {
    const std::uint64_t samples = source_size(*place);
    const std::uint64_t needed = samples * (element_bytes(place->spec()) + 256);
    if (options_.cache == CacheMode::kMemory && needed > room) {
      throw ConfigError(fmt::format(
          "[cache] {} samples need {}; the budget leaves {}; use --cache auto (keeps what "
          "fits) or file",
          samples, format_bytes(needed), format_bytes(room)));
    }
    cache_ = std::make_unique<ReaderCache>(
        *place,
        options_.cache == CacheMode::kFile
            ? make_file_store(options_.cache_file, samples, place->spec(), fingerprint_of(*place))
            : make_memory_store(samples, std::min(room, needed)));
  }
  if (limited && options_.cache != CacheMode::kFile) {
    meter_ = std::make_unique<Meter>(options_.budget_bytes - std::min(room, options_.budget_bytes));
  }
}

void BatchReader::staff(ThreadPool& pool) {
  while (workers_.size() < static_cast<std::size_t>(std::max(pool.threads(), options_.threads))) {
    Worker& worker = workers_.emplace_back(options_.seed, *meter_, *options_.env);
    worker.set_quarantine(quarantine_.get());
    worker.set_cache(cache_.get());
  }
  team_ = {&pool, &workers_};
}

std::uint64_t BatchReader::fill(std::span<const Slot> slots, std::span<std::uint64_t> ids,
                                ThreadPool& pool) {
  if (slots.size() != spec_.size()) {
    throw ConfigError(fmt::format("[data] a batch has {} components, {}; got {} slots",
                                  spec_.size(), to_string(spec_), slots.size()));
  }
  staff(pool);
  if (!node_->random_access()) return fill_from_element(slots, ids, pool);
  if (position_ >= node_->size().value()) return 0;
  Position at{position_, epoch_};
  const Node* node = node_.get();
  const Node* next = node;
  while (next != nullptr) {
    node = next;
    next = node->forward(at, options_.seed);
  }
  const auto* batch = dynamic_cast<const Batch*>(node);
  if (batch == nullptr) return fill_from_element(slots, ids, pool);
  const std::uint64_t count = batch->fill(at, slots, ids, team_);
  ++position_;
  return count;
}

std::uint64_t BatchReader::fill_from_element(std::span<const Slot> slots,
                                             std::span<std::uint64_t> ids, ThreadPool& pool) {
  if (!next_element(*element_, pool)) return 0;
  const Sample& element = *element_;
  if (element.size() != slots.size()) {
    throw DataError(fmt::format("[data] batch {}: expected {} components; got {}", position_ - 1,
                                slots.size(), element.size()));
  }
  const std::int64_t rows = element[0].dims().rank() == 0 ? -1 : element[0].dims()[0];
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::size_t bytes =
        static_cast<std::size_t>(std::max<std::int64_t>(rows, 0)) * slots[i].row_bytes();
    if (rows < 0 || element[i].dims() != slots[i].row.prepend(rows) ||
        bytes > slots[i].bytes.size() || !can_store(element[i].dtype(), slots[i].dtype)) {
      throw DataError(fmt::format(
          "[data] batch {}: component {} does not fit; expected rows of {} {} in "
          "{} bytes; got {} {}",
          position_ - 1, i, name_of(slots[i].dtype), slots[i].row.to_string(),
          slots[i].bytes.size(), name_of(element[i].dtype()), element[i].dims().to_string()));
    }
    store(element[i], slots[i].dtype, slots[i].bytes.first(bytes));
  }
  for (std::size_t i = 0; i < std::min(ids.size(), static_cast<std::size_t>(rows)); ++i) {
    ids[i] = i < element.rows().size() ? element.rows()[i] : element.index();
  }
  return static_cast<std::uint64_t>(rows);
}

bool BatchReader::next_element(Sample& out, ThreadPool& pool) {
  staff(pool);
  Worker& worker = workers_[0];
  worker.set_team(&team_);
  struct Clear {
    ~Clear() { worker.set_team(nullptr); }
    Worker& worker;
  } clear{worker};
  if (node_->random_access()) {
    if (position_ >= node_->size().value()) return false;
    read_or_substitute(*node_, {position_, epoch_}, out, worker);
  } else {
    if (!cursor_) {
      cursor_ = node_->open(epoch_, worker);
      if (position_ > 0) cursor_->skip(position_, worker);
    }
    if (!cursor_->next(out, worker)) return false;
  }
  ++position_;
  return true;
}

void BatchReader::read_ahead() {
  if (!node_->random_access() || position_ >= node_->size().value() || workers_.empty()) return;
  node_->will_need({position_, epoch_}, workers_[0]);
}

void BatchReader::seek(std::uint64_t epoch, std::uint64_t position) {
  cursor_.reset();
  epoch_ = epoch;
  position_ = position;
}

State BatchReader::state() const {
  if (!description_) description_ = describe_state(*node_);
  State state = *description_;
  state.epoch = epoch_;
  state.position = position_;
  state.seed = options_.seed;
  return state;
}

void BatchReader::restore(const State& then) {
  check_resumable(then, state());
  options_.seed = then.seed;
  workers_.clear();  // they hold the seed
  seek(then.epoch, then.position);
}

std::vector<LedgerEntry> BatchReader::buffers() const {
  std::vector<LedgerEntry> entries;
  collect_buffers(*node_, entries);
  if (cache_ && options_.cache != CacheMode::kFile) {
    entries.push_back(
        {"cache", source_size(cache_->node()) * (element_bytes(cache_->node().spec()) + 256)});
  }
  return entries;
}

std::vector<BadSample> BatchReader::quarantined() const {
  return quarantine_ ? quarantine_->list() : std::vector<BadSample>{};
}

std::string BatchReader::explain() const {
  return describe_pipeline(*node_);
}

}  // namespace surefit::data
