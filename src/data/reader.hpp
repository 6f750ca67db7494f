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

// Where to keep prepared samples between epochs. kAuto: in memory as far as the budget allows, at
// the last place where they do not depend on the epoch. kMemory: all of them, or refuse. kFile: in
// `cache_file`, which survives crashes.
enum class CacheMode { kNone, kAuto, kMemory, kFile };

enum class OnBadSample { kFail, kSkip };

struct ReaderOptions {
  std::uint64_t seed = 0;
  int threads = 1;                                 // of the pool that fill() will be given
  std::uint64_t budget_bytes = ~std::uint64_t{0};  // for all buffers of the pipeline together
  OnBadSample on_bad_sample = OnBadSample::kFail;
  double max_bad_share = 0.01;  // kSkip stops the run above this share of the data
  CacheMode cache = CacheMode::kNone;
  std::string cache_file = {};
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

  std::vector<LedgerEntry> buffers() const;
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
    double fill_seconds = 0;     // of the caller's time spent waiting in fill()
    double elapsed_seconds = 0;  // from the first fill() to the end of the last
    double io_seconds = 0;       // over all threads, opening and reading files
    bool reads_ahead = false;    // AUTOTUNE's choice, or what prefetch asked for
    std::vector<Step> steps = {};  // in the order of the pipeline
    double stall_share() const { return elapsed_seconds > 0 ? fill_seconds / elapsed_seconds : 0; }
  };
  Statistics statistics() const;
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
  void place_cache();
  std::uint64_t fill_batch(std::span<const Slot> slots, std::span<std::uint64_t> ids,
                           ThreadPool& pool);
  void tune_read_ahead();

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
  double fill_seconds_ = 0, first_fill_ = 0, last_fill_ = 0;
  mutable std::optional<State> description_;
};

}  // namespace surefit::data
