// SPDX-License-Identifier: Apache-2.0
// How a trainer takes batches out of a Dataset.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "surefit/data.hpp"

#include "data/cache.hpp"
#include "data/node.hpp"
#include "data/quarantine.hpp"
#include "data/state.hpp"
#include "data/verbs/batch.hpp"

namespace surefit::data {

struct ReaderOptions {
  std::uint64_t seed = 0;
  int threads = 1;  // of the pool that fill() will be given
  InputOptions input = {};
  Env* env = nullptr;  // default: the machine's files
};

// One run over a Dataset of batches (one that ends in batch(), or whose elements are batches
// already). After the first batch of an indexable pipeline it allocates nothing. Not synchronised;
// fill() spreads its work over the pool.
class BatchReader {
 public:
  BatchReader(const Dataset& dataset, ReaderOptions options);
  ~BatchReader();

  // Type and extents of one sample, per component. Throws ConfigError when extents vary from sample
  // to sample.
  const std::vector<ComponentSpec>& sample_spec() const { return spec_; }
  std::uint64_t batch_size() const {
    return batch_size_;
  }  // most samples in one batch; 0 when only running tells
  std::optional<std::uint64_t> batches() const { return node_->size(); }  // per epoch
  bool random_access() const { return node_->random_access(); }

  // Writes the next batch and moves on. Returns the number of samples, 0 when the epoch is over.
  // `ids` takes the stable number of each sample, or is empty. Slots: float32 and int32 accept any
  // number, others the same type only.
  std::uint64_t fill(std::span<const Slot> slots, std::span<std::uint64_t> ids, ThreadPool& pool);
  // Tells the system which bytes the next batch needs, so that the disk works while the cores
  // train.
  void read_ahead();
  void next_epoch() { seek(epoch_ + 1, 0); }
  void seek(std::uint64_t epoch, std::uint64_t position);
  std::uint64_t epoch() const { return epoch_; }
  std::uint64_t position() const { return position_; }

  State state() const;
  void restore(const State& state);  // throws, leaving the reader as it was, when the data or the
                                     // verbs changed

  // Every buffer of the pipeline, and their sum: what the process will hold for it at most. Known
  // before the first batch; under a stated budget the sum without kSource entries is at most that.
  std::vector<LedgerEntry> buffers() const;
  std::uint64_t planned_bytes() const;
  // Without any cache, and without kSource entries: no smaller budget is safe.
  std::uint64_t least_bytes() const;
  void set_budget(std::uint64_t bytes);  // before the first batch
  // Before the first batch: the most that an automatic cache may take where no budget was stated.
  void limit_cache(std::uint64_t bytes);
  // Gives the memory of an automatic cache back; samples are prepared anew from now on.
  void drop_cache();
  const Meter& meter() const { return *meter_; }
  // Bytes the pipeline holds now: buffers and the reader's cache.
  std::uint64_t memory_bytes() const {
    return meter_->used_bytes() + (cache_ ? cache_->store().memory_bytes() : 0);
  }
  std::vector<BadSample> quarantined() const;

  struct Step {
    std::string name;
    std::uint64_t calls = 0;
    double seconds = 0;  // over all threads
  };
  // Measured since the reader was made.
  struct Statistics {
    std::uint64_t samples = 0;
    double fill_seconds = 0;       // of the caller's time spent in fill()
    double stall_seconds = 0;      // of that, with cores idle: waiting for files or for each other
    double elapsed_seconds = 0;    // from the first fill() to the end of the last
    double io_seconds = 0;         // over all threads, opening and reading files
    bool reads_ahead = false;      // AUTOTUNE's choice, or what prefetch asked for
    std::vector<Step> steps = {};  // in the order of the pipeline
    double input_share() const { return elapsed_seconds > 0 ? fill_seconds / elapsed_seconds : 0; }
    double stall_share() const { return elapsed_seconds > 0 ? stall_seconds / elapsed_seconds : 0; }
  };
  Statistics statistics() const;
  // The two shares alone; allocates nothing.
  double input_share() const { return times().input_share(); }
  double stall_share() const { return times().stall_share(); }
  // Where the time goes, what limits it and what was chosen, for people.
  std::string explain() const;

 private:
  friend class surefit::DatasetIterator;
  bool next_element(Sample& out, ThreadPool& pool);
  void staff(ThreadPool& pool);
  std::uint64_t fill_from_element(std::span<const Slot> slots, std::span<std::uint64_t> ids,
                                  ThreadPool& pool);

  NodePtr node_;
  ReaderOptions options_;
  std::vector<ComponentSpec> spec_;
  std::uint64_t batch_size_ = 0;
  std::uint64_t epoch_ = 0, position_ = 0;
  int workers_wanted() const;
  void lay_out();
  void place_cache(std::uint64_t room);
  std::uint64_t fill_batch(std::span<const Slot> slots, std::span<std::uint64_t> ids,
                           ThreadPool& pool);
  void tune_read_ahead();
  Statistics times() const {
    return {.samples = samples_,
            .fill_seconds = fill_seconds_,
            .stall_seconds = stall_seconds_,
            .elapsed_seconds = last_fill_ - first_fill_,
            .reads_ahead = reads_ahead_};
  }

  std::unique_ptr<Meter> meter_;
  std::unique_ptr<ReaderCache> cache_;
  std::unique_ptr<Quarantine> quarantine_;
  std::vector<Worker> workers_;
  Team team_;
  std::unique_ptr<Sample> element_;
  std::unique_ptr<Cursor> cursor_;
  std::int64_t prefetch_depth_ = 0;
  bool reads_ahead_ = false;
  std::uint64_t samples_ = 0;
  std::uint64_t scratch_bytes_ = 0;
  std::uint64_t cache_limit_bytes_ = ~std::uint64_t{0};
  double fill_seconds_ = 0, stall_seconds_ = 0, first_fill_ = 0, last_fill_ = 0;
  mutable std::optional<State> description_;
};

}  // namespace surefit::data
