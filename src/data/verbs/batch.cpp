// SPDX-License-Identifier: Apache-2.0
#include "data/verbs/batch.hpp"

#include <algorithm>
#include <deque>
#include <fmt/format.h>
#include <utility>

#include "base/check.hpp"
#include "data/parallel.hpp"
#include "data/quarantine.hpp"
#include "data/store.hpp"

namespace surefit::data {
namespace {

// Lets results of the right size be written straight into a row. Withdrawn on every way out: a
// stale offer would let a later sample scribble over somebody else's memory.
class OfferedRow {
 public:
  OfferedRow(Sample& sample, std::span<const Slot> slots, std::uint64_t row)
      : sample_(sample), count_(slots.size()) {
    sample.resize(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      const std::size_t bytes = slots[i].row_bytes();
      sample[i].offer(slots[i].dtype, slots[i].bytes.subspan(row * bytes, bytes));
    }
  }
  ~OfferedRow() {
    const std::size_t size = sample_.size();  // a map may have dropped components
    sample_.resize(std::max(count_, size));
    for (std::size_t i = 0; i < count_; ++i) sample_[i].offer(DType::kFloat32, {});
    sample_.resize(size);
  }
  OfferedRow(const OfferedRow&) = delete;
  OfferedRow& operator=(const OfferedRow&) = delete;

 private:
  Sample& sample_;
  std::size_t count_;
};

// Storage in `out` for a batch whose rows look like `row`.
std::vector<Slot> make_slots(Sample& out, const Sample& row, std::uint64_t rows) {
  std::vector<Slot> slots;
  out.resize(row.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Dims& dims = row[i].dims();
    slots.push_back(
        {row[i].dtype(), dims,
         out[i].replace(row[i].dtype(), dims.prepend(static_cast<std::int64_t>(rows))).bytes});
  }
  return slots;
}

// Batches of a stream. Elements are drawn one after the other; the maps above the stream then run
// in parallel.
class BatchCursor final : public Cursor {
 public:
  BatchCursor(const Batch& node, bool drop_remainder, std::uint64_t pass, Worker& worker)
      : batch_size_(node.batch_size()), drop_remainder_(drop_remainder) {
    const Node* base = &node.input();
    for (; base->elementwise(); base = &base->input()) maps_.push_front(base);
    input_ = base->open(pass, worker);
  }

  bool next(Sample& out, Worker& worker) override {
    std::size_t rows = 0;
    for (; rows < batch_size_; ++rows) {
      if (rows == samples_.size()) samples_.push_back(std::make_unique<Sample>(&worker.meter()));
      if (!input_->next(*samples_[rows], worker)) break;
    }
    if (rows == 0 || (drop_remainder_ && rows < batch_size_)) return false;
    for_each(rows, worker, [&](std::size_t row, Worker& mine) {
      for (const Node* map : maps_) map->apply(*samples_[row], mine);
    });
    const std::vector<Slot> slots = make_slots(out, *samples_[0], rows);
    for_each(rows, worker,
             [&](std::size_t row, Worker&) { store_row(*samples_[row], slots, row); });
    out.place(samples_[0]->index(), samples_[0]->epoch());
    out.set_path({});
    const std::span<std::uint64_t> ids = out.set_rows(rows);
    for (std::size_t row = 0; row < rows; ++row) ids[row] = samples_[row]->index();
    return true;
  }

  void skip(std::uint64_t count, Worker& worker) override {
    input_->skip(count * batch_size_, worker);
  }

 private:
  std::uint64_t batch_size_;
  bool drop_remainder_;
  std::deque<const Node*> maps_;
  std::unique_ptr<Cursor> input_;
  std::vector<std::unique_ptr<Sample>> samples_;
};

}  // namespace

const Batch* find_batch(const Node& top) {
  const Node* node = &top;
  while (node != nullptr) {
    if (const auto* batch = dynamic_cast<const Batch*>(node)) return batch;
    node = node->inputs().size() == 1 ? &node->input() : nullptr;
  }
  return nullptr;
}

void store_row(const Sample& sample, std::span<const Slot> slots, std::uint64_t row) {
  if (sample.size() != slots.size()) {
    throw DataError(fmt::format("[batch] {}: expected {} components; got {}",
                                describe_sample(sample), slots.size(), sample.size()),
                    sample.path());
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    if (sample[i].dims() != slot.row || !can_store(sample[i].dtype(), slot.dtype)) {
      throw DataError(
          fmt::format("[batch] {}: component {} does not fit; expected {} {}; got {} {}; "
                      "resize or cast it before batch",
                      describe_sample(sample), i, name_of(slot.dtype), slot.row.to_string(),
                      name_of(sample[i].dtype()), sample[i].dims().to_string()),
          sample.path());
    }
    const std::size_t bytes = slot.row_bytes();
    try {
      store(sample[i], slot.dtype, slot.bytes.subspan(row * bytes, bytes));
    } catch (const DataError&) {
      rethrow_with_sample("batch", sample);
    }
  }
}

Batch::Batch(NodePtr input, std::uint64_t batch_size, BatchOptions options)
    : Node({std::move(input)}), batch_size_(batch_size), options_(options) {
  if (batch_size == 0) throw ConfigError("[batch] batch_size is 0; expected at least 1");
}

std::string Batch::describe() const {
  return fmt::format("batch({}{})", batch_size_, options_.drop_remainder ? ", drop_remainder" : "");
}

std::vector<ComponentSpec> Batch::spec() const {
  std::vector<ComponentSpec> spec = input().spec();
  for (ComponentSpec& component : spec) {
    component.dims = component.dims.prepend(
        options_.drop_remainder ? static_cast<std::int64_t>(batch_size_) : -1);
  }
  return spec;
}

std::optional<std::uint64_t> Batch::size() const {
  const auto samples = input().size();
  if (!samples || *samples == kInfiniteCardinality) return samples;
  const bool partial = *samples % batch_size_ != 0 && !options_.drop_remainder;
  return *samples / batch_size_ + (partial ? 1 : 0);
}

std::uint64_t Batch::rows(std::uint64_t index) const {
  const std::uint64_t samples = input().size().value();
  if (samples == kInfiniteCardinality) return batch_size_;
  const std::uint64_t first = index * batch_size_;
  SUREFIT_CHECK(first < samples, "batch {} of {} samples", index, samples);
  return std::min(batch_size_, samples - first);
}

std::uint64_t Batch::fill(Position at, std::span<const Slot> slots, std::span<std::uint64_t> ids,
                          Team& team) const {
  const std::uint64_t count = rows(at.index);
  run_team(team, count, [&](std::size_t row, Worker& worker) {
    Worker::Lease lease(worker);
    Sample& sample = *lease;
    const OfferedRow offered(sample, slots, row);
    read_or_substitute(input(), {at.index * batch_size_ + row, at.pass}, sample, worker);
    store_row(sample, slots, row);
    if (!ids.empty()) ids[row] = sample.index();
  });
  return count;
}

void Batch::warm_up(Position at, std::span<const Slot> slots, std::vector<Worker>& workers) const {
  // A sample for each of them: what one has put into a cache, the next would find there, and not
  // learn what it takes to put one in.
  std::uint64_t index = at.index * batch_size_;
  for (Worker& worker : workers) {
    Worker::Lease lease(worker);
    const OfferedRow offered(*lease, slots, 0);
    read_or_substitute(input(), {index, at.pass}, *lease, worker);
    index = (index + 1) % input().size().value();
  }
}

void Batch::read(Position at, Sample& out, Worker& worker) const {
  const std::uint64_t count = rows(at.index);
  const std::uint64_t first = at.index * batch_size_;
  const std::span<std::uint64_t> ids = out.set_rows(count);
  std::vector<Slot> slots;
  {
    Worker::Lease sample(worker);
    read_or_substitute(input(), {first, at.pass}, *sample, worker);
    slots = make_slots(out, *sample, count);
    store_row(*sample, slots, 0);
    out.place((*sample).index(), (*sample).epoch());
    ids[0] = (*sample).index();
  }
  for_each(count - 1, worker, [&](std::size_t i, Worker& mine) {
    Worker::Lease sample(mine);
    read_or_substitute(input(), {first + i + 1, at.pass}, *sample, mine);
    store_row(*sample, slots, i + 1);
    ids[i + 1] = (*sample).index();
  });
  out.set_path({});
}

void Batch::will_need(Position at, Worker& worker) const {
  const std::uint64_t count = rows(at.index);
  for (std::uint64_t row = 0; row < count; ++row) {
    input().will_need({at.index * batch_size_ + row, at.pass}, worker);
  }
}

std::unique_ptr<Cursor> Batch::open(std::uint64_t pass, Worker& worker) const {
  return std::make_unique<BatchCursor>(*this, options_.drop_remainder, pass, worker);
}

NodePtr make_batch(NodePtr input, std::uint64_t batch_size, BatchOptions options) {
  return std::make_shared<Batch>(std::move(input), batch_size, options);
}

}  // namespace surefit::data
