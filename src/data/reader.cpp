// SPDX-License-Identifier: Apache-2.0
#include "data/reader.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/thread_pool.hpp"
#include "base/units.hpp"
#include "data/budget.hpp"
#include "data/store.hpp"

namespace surefit::data {
namespace {

template <typename Visit>
void each_node(const Node& node, const Visit& visit) {
  visit(node);
  for (const auto& input : node.inputs()) each_node(*input, visit);
}

std::uint64_t count_caches(const Node& node) {
  std::uint64_t count = 0;
  each_node(node, [&](const Node& each) { count += each.holds_cache() ? 1 : 0; });
  return count;
}

// Gives every cache verb its share of `room`; false when there is none.
bool limit_caches(const Node& node, std::uint64_t room) {
  const std::uint64_t caches = count_caches(node);
  if (caches == 0) return false;
  each_node(node, [&](const Node& each) { each.limit_cache(room / caches); });
  return true;
}

}  // namespace

BatchReader::BatchReader(const Dataset& dataset, ReaderOptions options)
    : node_(dataset.node()), options_(std::move(options)) {
  if (options_.env == nullptr) options_.env = &Env::posix();
  const Batch* batch = find_batch(*node_);
  if (options_.input.on_bad_sample == OnBadSample::kSkip) {
    quarantine_ =
        std::make_unique<Quarantine>(options_.input, batch ? batch->input().size() : node_->size());
  }
  if (batch != nullptr) batch_size_ = batch->batch_size();
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
  for (const Node* node = node_.get(); node != nullptr;
       node = node->inputs().empty() ? nullptr : &node->input()) {
    if (node->prefetch_depth() != 0) prefetch_depth_ = node->prefetch_depth();
  }
  scratch_bytes_ = scratch_bytes(*node_, workers_wanted(), batch_size_, *options_.env);
  lay_out();
}

BatchReader::~BatchReader() = default;

int BatchReader::workers_wanted() const {
  const int threads = std::max(options_.threads, 1);
  return options_.input.workers > 0 ? std::min(options_.input.workers, threads) : threads;
}

void BatchReader::set_budget(std::uint64_t bytes) {
  SUREFIT_CHECK(samples_ == 0, "the budget of a pipeline changed after {} samples", samples_);
  options_.input.budget_bytes = bytes;
  lay_out();
}

void BatchReader::limit_cache(std::uint64_t bytes) {
  if (options_.input.cache != CacheMode::kAuto) return;
  SUREFIT_CHECK(samples_ == 0, "the cache of a pipeline changed after {} samples", samples_);
  cache_limit_bytes_ = bytes;
  lay_out();
}

void BatchReader::drop_cache() {
  if (options_.input.cache != CacheMode::kAuto) return;
  for (Worker& worker : workers_) worker.set_cache(nullptr);
  cache_.reset();
}

// The budget is split once: caches get what decoding and shuffling leave, so that all together can
// never exceed it.
void BatchReader::lay_out() {
  const std::vector<LedgerEntry> verbs = verb_buffers(*node_);
  const std::uint64_t fixed = bytes_of(verbs, Residence::kFixed);
  const std::uint64_t metered = bytes_of(verbs, Residence::kMetered) + scratch_bytes_;
  const std::uint64_t budget = options_.input.budget_bytes;
  const bool planned = budget == kPlannedBytes;
  const std::uint64_t room = planned ? std::min(available_memory_bytes() / 2, cache_limit_bytes_)
                             : budget > fixed + metered ? budget - fixed - metered
                                                        : 0;
  workers_.clear();
  element_.reset();
  cache_.reset();
  place_cache(room);
  std::uint64_t cached = cache_ ? cache_->store().limit_bytes() : 0;
  if (limit_caches(*node_, room)) cached = bytes_of(verb_buffers(*node_), Residence::kCache);
  // What was stated and nobody else wants, samples larger than expected may have.
  meter_ = std::make_unique<Meter>(planned                   ? metered
                                   : budget > fixed + cached ? budget - fixed - cached
                                                             : 0);
  element_ = std::make_unique<Sample>(meter_.get());
}

void BatchReader::place_cache(std::uint64_t room) {
  const CacheMode mode = options_.input.cache;
  if (mode == CacheMode::kOff || count_caches(*node_) > 0) return;
  const Node* place = find_cache_place(*node_);
  if (place == nullptr) return;
  const std::vector<ComponentSpec> spec = place->spec();
  const bool bytes = spec[0].dtype == DType::kUInt8;
  if (mode == CacheMode::kAuto && !bytes && source_of(*place).only_copies()) return;
  const std::uint64_t samples = source_of(*place).size().value_or(0);
  if (mode == CacheMode::kFile) {
    cache_ = std::make_unique<ReaderCache>(
        *place, make_file_store(options_.input.cache_file, samples, spec, fingerprint_of(*place)));
    return;
  }
  const std::uint64_t needed = slab_bytes(samples, spec);
  if (mode == CacheMode::kMemory && needed > room) {
    throw ConfigError(fmt::format(
        "[cache] {} samples need {}; the budget leaves {}; use --cache auto (keeps what "
        "fits) or file",
        samples, format_bytes(needed), format_bytes(room)));
  }
  cache_ =
      std::make_unique<ReaderCache>(*place, make_slab_store(samples, spec, std::min(room, needed)));
}

void BatchReader::staff(ThreadPool& pool) {
  // As many as were planned for, whatever the pool has.
  while (workers_.size() < static_cast<std::size_t>(workers_wanted())) {
    Worker& worker = workers_.emplace_back(options_.seed, *meter_, *options_.env);
    worker.set_quarantine(quarantine_.get());
    worker.set_cache(cache_.get());
  }
  team_ = {&pool, &workers_};
}

std::uint64_t BatchReader::fill(std::span<const Slot> slots, std::span<std::uint64_t> ids,
                                ThreadPool& pool) {
  const double start = monotonic_seconds();
  if (samples_ == 0) first_fill_ = start;
  double waited = 0;  // over all workers
  for (Worker& worker : workers_) {
    worker.set_busy_until(start);
    waited -= worker.io_seconds();
  }
  const std::uint64_t count = fill_batch(slots, ids, pool);
  if (count > 0) tune_read_ahead();
  samples_ += count;
  last_fill_ = monotonic_seconds();
  fill_seconds_ += last_fill_ - start;
  for (const Worker& worker : workers_)
    waited += last_fill_ - std::max(start, worker.busy_until()) + worker.io_seconds();
  stall_seconds_ += waited / static_cast<double>(workers_.size());
  return count;
}

// Reading ahead costs three system calls a file. It pays when files have to come from a disk, which
// shows in the time that reading takes; from the page cache it is a hundredth of decoding.
void BatchReader::tune_read_ahead() {
  if (prefetch_depth_ == 0) return;
  if (prefetch_depth_ == AUTOTUNE && !reads_ahead_) {
    constexpr double kWorthwhile = 0.05;
    double io = 0, work = 0;
    for (const Worker& worker : workers_) {
      io += worker.io_seconds();
      for (const ServiceTime& time : worker.times()) work += time.seconds;
    }
    if (io <= kWorthwhile * work) return;
  }
  reads_ahead_ = true;
  read_ahead();
}

std::uint64_t BatchReader::fill_batch(std::span<const Slot> slots, std::span<std::uint64_t> ids,
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
  if (samples_ == 0) {
    if (cache_) cache_->store().commit();
    pool.parallel_for(workers_.size(),
                      [&](std::size_t i, int) { warm_up_worker(*node_, workers_[i]); });
    batch->warm_up(at, slots, workers_);
  }
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
  std::vector<LedgerEntry> entries = verb_buffers(*node_);
  std::erase_if(entries,
                [](const LedgerEntry& entry) { return entry.residence == Residence::kMetered; });
  entries.push_back({"samples in preparation", meter_->limit_bytes(), Residence::kMetered});
  if (cache_ && cache_->store().limit_bytes() > 0)
    entries.push_back({"cache", cache_->store().limit_bytes(), Residence::kCache});
  return entries;
}

std::uint64_t BatchReader::planned_bytes() const {
  std::uint64_t bytes = 0;
  for (const LedgerEntry& entry : buffers()) bytes += entry.bytes;
  return bytes;
}

std::uint64_t BatchReader::least_bytes() const {
  const std::vector<LedgerEntry> verbs = verb_buffers(*node_);
  return bytes_of(verbs, Residence::kFixed) + bytes_of(verbs, Residence::kMetered) + scratch_bytes_;
}

std::vector<BadSample> BatchReader::quarantined() const {
  return quarantine_ ? quarantine_->list() : std::vector<BadSample>{};
}

}  // namespace surefit::data
