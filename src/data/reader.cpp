// SPDX-License-Identifier: Apache-2.0
#include "data/reader.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"
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
  for (const Node* node = node_.get(); node != nullptr;
       node = node->inputs().empty() ? nullptr : &node->input()) {
    if (node->prefetch_depth() != 0) prefetch_depth_ = node->prefetch_depth();
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
  const double start = monotonic_seconds();
  if (samples_ == 0) first_fill_ = start;
  const std::uint64_t count = fill_batch(slots, ids, pool);
  if (count > 0) tune_read_ahead();
  samples_ += count;
  last_fill_ = monotonic_seconds();
  fill_seconds_ += last_fill_ - start;
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
  if (samples_ == 0) batch->warm_up(at, slots, workers_);
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

namespace {

void collect_steps(const Node& node, std::vector<std::pair<std::uint32_t, std::string>>& steps) {
  for (const auto& input : node.inputs()) collect_steps(*input, steps);
  if (node.elementwise()) steps.emplace_back(node.op(), node.describe());
}

}  // namespace

BatchReader::Statistics BatchReader::statistics() const {
  Statistics statistics{.samples = samples_,
                        .fill_seconds = fill_seconds_,
                        .elapsed_seconds = last_fill_ - first_fill_,
                        .reads_ahead = reads_ahead_};
  std::vector<std::pair<std::uint32_t, std::string>> steps;
  collect_steps(*node_, steps);
  for (const auto& [op, name] : steps) {
    Step step;
    step.name = name;
    for (const Worker& worker : workers_) {
      if (op >= worker.times().size()) continue;
      step.calls += worker.times()[op].calls;
      step.seconds += worker.times()[op].seconds;
    }
    statistics.steps.push_back(step);
  }
  for (const Worker& worker : workers_) statistics.io_seconds += worker.io_seconds();
  return statistics;
}

std::string BatchReader::explain() const {
  const Statistics now = statistics();
  std::string text = fmt::format("pipeline:   {}\n", describe_pipeline(*node_));
  if (now.samples == 0) return text + "nothing measured yet\n";
  const auto samples = static_cast<double>(now.samples);
  double work = 0;
  const Step* slowest = nullptr;
  for (const Step& step : now.steps) {
    work += step.seconds;
    if (step.calls > 0 && (slowest == nullptr || step.seconds > slowest->seconds)) slowest = &step;
  }
  for (const Step& step : now.steps) {
    text += fmt::format("step:       {}: {:.1f} us a sample, {:.1f} % of the steps' time{}\n",
                        step.name, step.seconds / samples * 1e6,
                        work > 0 ? step.seconds / work * 100 : 0,
                        step.calls < now.samples
                            ? fmt::format(", run for {} of {} samples", step.calls, now.samples)
                            : "");
  }
  text += fmt::format(
      "rate:       {:.0f} samples/s could be prepared by {} threads; {:.0f}/s were taken\n",
      samples / std::max(now.fill_seconds, 1e-9), workers_.size(),
      samples / std::max(now.elapsed_seconds, 1e-9));
  text += fmt::format("input:      {:.1f} % of the time went into preparing batches\n",
                      now.stall_share() * 100);
  if (slowest != nullptr && work > 0) {
    text += fmt::format("bottleneck: {}\n", slowest->name);
    text += fmt::format(
        "files:      {:.1f} % of the steps' time; reading ahead is {}\n",
        now.io_seconds / work * 100,
        now.reads_ahead ? "on" : (prefetch_depth_ == 0 ? "off: no prefetch" : "off: not worth it"));
  } else {
    text += "bottleneck: none; samples are copied from memory\n";
  }
  text += fmt::format(
      "cache:      {}\n",
      cache_ ? fmt::format("after {}; {}", cache_->node().describe(), cache_->store().describe())
             : "none of the reader's");
  text += fmt::format(
      "memory:     {} of {} in use by buffers, at most {} so far\n",
      format_bytes(meter_->used_bytes()),
      meter_->limit_bytes() == ~std::uint64_t{0} ? "no limit" : format_bytes(meter_->limit_bytes()),
      format_bytes(meter_->peak_bytes()));
  return text;
}

}  // namespace surefit::data
