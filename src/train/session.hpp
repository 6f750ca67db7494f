// SPDX-License-Identifier: Apache-2.0
// Programs planned and bound for one call of fit, evaluate or predict.
#pragma once

#include <memory>
#include <vector>

#include "base/thread_pool.hpp"
#include "data/reader.hpp"
#include "engine/executable.hpp"
#include "train/model_impl.hpp"

namespace surefit {

// One dataset flowing through one program.
class Feed {
 public:
  // Checks that the data fit the program: extents, number of components. Components behind those
  // the program reads are skipped. Throws DataError whose text starts with "[name]".
  Feed(const Program& program, const Network& network, const Dataset& batches,
       data::ReaderOptions options, std::string name = "data");

  data::BatchReader& reader() { return reader_; }
  const data::BatchReader& reader() const { return reader_; }
  std::int64_t batch() const { return batch_; }
  // Points the feed at the memory of the bound program.
  void bind(const Executable& executable);
  // Fills the input slots with the next batch and checks it: labels in range, no NaN. Returns the
  // number of samples, 0 at the end of the epoch.
  std::int64_t next(ThreadPool& pool);
  const std::vector<std::uint64_t>& ids() const { return ids_; }

 private:
  void check(std::int64_t samples, ThreadPool& pool) const;
  void check_component(std::size_t component, std::size_t n) const;

  const Program& program_;
  data::BatchReader reader_;
  std::int64_t batch_ = 0;
  std::vector<data::Slot> slots_;
  std::vector<std::uint64_t> ids_;
  std::string name_;
  std::vector<ValueId> components_;  // of a sample, that the program reads
  std::vector<std::byte> skipped_;   // where the others go
};

// Loss and metrics over the samples seen, added in sample order.
class Scores {
 public:
  // Logs are called `prefix` + "loss" and so on.
  Scores(const std::vector<Target>& targets, const std::string& prefix);
  void reset();
  void add(const Executable& executable, const Program& program, std::int64_t samples);
  const Logs& logs();  // of everything since reset(); allocates nothing
  std::span<const double> state(std::size_t metric) const { return states_[metric].numbers; }
  const Logs& names() const { return logs_; }  // with whatever numbers
  // Every number of the state, in a fixed order.
  template <typename Visit>
  void visit(const Visit& visit) {
    visit(loss_sum_);
    visit(count_);
    for (double& sum : loss_sums_) visit(sum);
    for (State& state : states_) {
      for (double& number : state.numbers) visit(number);
    }
  }

 private:
  struct State {
    const MetricImpl* metric;
    std::vector<double> numbers;
  };
  double loss_sum_ = 0, count_ = 0;
  std::vector<double> loss_sums_;  // of the outputs, where there are several
  Logs logs_;
  std::vector<State> states_;
};

}  // namespace surefit
