// SPDX-License-Identifier: Apache-2.0
// Shuffles of things that can be indexed move indices, never data.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <mutex>

#include "base/check.hpp"
#include "base/permutation.hpp"
#include "base/philox.hpp"
#include "data/node.hpp"

namespace surefit::data {
namespace {

// Two shuffles in one pipeline must not be the same permutation twice.
std::uint64_t seed_of(std::uint64_t seed, std::uint32_t op) {
  const PhiloxBlock block = Philox(seed, Purpose::kShuffle, op, 0, 0).block(0);
  return (std::uint64_t{block[0]} << 32) | block[1];
}

class Shuffle : public Node {
 public:
  Shuffle(NodePtr input, std::uint64_t buffer_size, const ShuffleOptions& options)
      : Node({std::move(input)}), buffer_size_(buffer_size), options_(options) {}

  std::string describe() const override {
    std::string text = fmt::format("shuffle({}", buffer_size_);
    if (options_.seed) text += fmt::format(", seed={}", *options_.seed);
    if (!options_.reshuffle_each_iteration) text += ", reshuffle_each_iteration=False";
    return text + ")";
  }
  std::vector<ComponentSpec> spec() const override { return input().spec(); }
  std::optional<std::uint64_t> size() const override { return input().size(); }
  bool varies() const override { return options_.reshuffle_each_iteration || input().varies(); }

 protected:
  struct Key {
    std::uint64_t seed = 0, epoch = 0;
    bool operator==(const Key&) const = default;
  };
  Key key(std::uint64_t pass, std::uint64_t seed) const {
    return {seed_of(options_.seed.value_or(seed), op()),
            options_.reshuffle_each_iteration ? pass : 0};
  }

  std::uint64_t buffer_size_;
  ShuffleOptions options_;
};

class PerfectShuffle final : public Shuffle {
 public:
  PerfectShuffle(NodePtr input, std::uint64_t buffer_size, const ShuffleOptions& options)
      : Shuffle(std::move(input), buffer_size, options), count_(Node::input().size().value()) {}

  const Node* forward(Position& at, std::uint64_t seed) const override {
    const Key wanted = key(at.pass, seed);
    if (count_ > kTableCount) {
      at.index = Permutation(count_, wanted.seed, wanted.epoch)(at.index);
      return &input();
    }
    // Small ranges are a shuffled table that costs more to make than to use; the last one is kept.
    const std::lock_guard lock(mutex_);
    if (!table_ || !(table_key_ == wanted)) {
      table_.emplace(count_, wanted.seed, wanted.epoch);
      table_key_ = wanted;
    }
    at.index = (*table_)(at.index);
    return &input();
  }

 private:
  static constexpr std::uint64_t kTableCount = 256;
  std::uint64_t count_;
  mutable std::mutex mutex_;
  mutable std::optional<Permutation> table_;
  mutable Key table_key_;
};

// A buffer smaller than the input: output k is drawn from the buffer and its place refilled with
// the next input, as tf.data does, but with indices. The sequence is a pure function of (seed,
// pass); what is kept here is only the memory of the last stretch computed, so that reading in
// order costs O(1) per element.
class WindowShuffle final : public Shuffle {
 public:
  WindowShuffle(NodePtr input, std::uint64_t buffer_size, const ShuffleOptions& options)
      : Shuffle(std::move(input), buffer_size, options), count_(Node::input().size().value()) {
    if (buffer_size == 0) throw ConfigError("[shuffle] buffer_size is 0; expected at least 1");
    if (count_ > std::numeric_limits<std::uint32_t>::max()) {
      throw ConfigError(fmt::format(
          "[shuffle] a buffer of {} over {} elements is not supported; expected at most 2^32 - 1 "
          "elements, or a buffer as large as the data (needs no memory)",
          buffer_size, count_));
    }
  }

  const Node* forward(Position& at, std::uint64_t seed) const override {
    const Key wanted = key(at.pass, seed);
    const std::lock_guard lock(mutex_);
    Run& run = run_for(wanted);
    if (run.recent.empty() || at.index + run.recent.size() < run.produced) restart(run, wanted);
    while (run.produced <= at.index) step(run);
    at.index = run.recent[at.index % run.recent.size()];
    return &input();
  }

  std::vector<LedgerEntry> buffers() const override {
    return {{describe(), runs_.size() * sizeof(std::uint32_t) * (buffer_size_ + recent_count())}};
  }

 private:
  struct Run {
    Key key;
    std::vector<std::uint32_t> buffer, recent;
    std::uint64_t filled = 0, next_input = 0, produced = 0, last_used = 0;
  };

  std::uint64_t recent_count() const { return std::min<std::uint64_t>(count_, 1u << 18); }

  Run& run_for(const Key& wanted) const {
    // Two, because the next epoch may be read ahead while this one ends.
    Run* oldest = &runs_[0];
    for (Run& run : runs_) {
      if (!run.recent.empty() && run.key == wanted) {
        run.last_used = ++clock_;
        return run;
      }
      if (run.last_used < oldest->last_used) oldest = &run;
    }
    restart(*oldest, wanted);
    oldest->last_used = ++clock_;
    return *oldest;
  }

  void restart(Run& run, const Key& wanted) const {
    run.key = wanted;
    run.buffer.resize(buffer_size_);
    run.recent.resize(recent_count());
    for (std::uint64_t i = 0; i < buffer_size_; ++i) run.buffer[i] = static_cast<std::uint32_t>(i);
    run.filled = run.next_input = buffer_size_;
    run.produced = 0;
  }

  void step(Run& run) const {
    SUREFIT_CHECK(run.filled > 0, "shuffle drawn beyond its {} elements", count_);
    const Philox stream(run.key.seed, Purpose::kShuffle, 0, run.key.epoch, 1);
    const std::uint64_t drawn = (std::uint64_t{stream.word(run.produced)} * run.filled) >> 32;
    run.recent[run.produced++ % run.recent.size()] = run.buffer[drawn];
    if (run.next_input < count_) {
      run.buffer[drawn] = static_cast<std::uint32_t>(run.next_input++);
    } else {
      run.buffer[drawn] = run.buffer[--run.filled];
    }
  }

  std::uint64_t count_;
  mutable std::mutex mutex_;
  mutable std::array<Run, 2> runs_;
  mutable std::uint64_t clock_ = 0;
};

}  // namespace

NodePtr make_shuffle(NodePtr input, std::uint64_t buffer_size, ShuffleOptions options) {
  const std::optional<std::uint64_t> size = input->size();
  if (!input->random_access()) return make_stream_shuffle(std::move(input), buffer_size, options);
  // Of something endless only a real buffer of elements can be shuffled.
  if (!size || *size == kInfiniteCardinality) {
    return make_stream_shuffle(std::move(input), buffer_size, options);
  }
  if (buffer_size >= *size) {
    return std::make_shared<PerfectShuffle>(std::move(input), buffer_size, options);
  }
  return std::make_shared<WindowShuffle>(std::move(input), buffer_size, options);
}

}  // namespace surefit::data
