// SPDX-License-Identifier: Apache-2.0
// Whether others take the memory away while training runs, or give it back: looked at between two
// steps, answered with a new budget. Which plan fits it is the trainer's business.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/proc_file.hpp"

namespace surefit {

struct Headroom {
  std::uint64_t bytes = kNoLimit;  // that the whole process may hold
  double stalled = 0;              // share of the last seconds spent waiting for memory (PSI)
};

// The machine, or a test's idea of one.
class HeadroomSource {
 public:
  virtual ~HeadroomSource() = default;
  virtual double now_s() = 0;
  virtual Headroom read() = 0;        // allocates nothing
  virtual std::string limiter() = 0;  // what sets the limit, for people
  virtual void wait(double seconds) = 0;
};
std::shared_ptr<HeadroomSource> system_headroom();

// The plan in use.
struct Holding {
  std::uint64_t bytes = 0;       // predicted peak
  std::uint64_t budget = 0;      // it was made for
  std::uint64_t full_speed = 0;  // bytes of the fastest; more is of no use
  std::uint64_t floor = 0;       // bytes of the smallest, once that has been asked for; 0: not yet
};

struct BudgetChange {
  std::uint64_t wanted = 0;  // with room for what comes before the next change
  // What is left at the next look if others go on as they do; a plan must not need more. Above
  // `wanted`, for those that cannot shrink so far.
  std::uint64_t most = 0;
  bool grows = false;
};

class MemoryWatch {
 public:
  // Budgets never exceed `ceiling`, what the user allowed.
  MemoryWatch(std::shared_ptr<HeadroomSource> source, std::uint64_t ceiling);

  // Call between any two steps: looks four times a second at most, and allocates nothing.
  std::optional<BudgetChange> look(const Holding& holding);
  // The new plan is bound; it took this long.
  void changed(double seconds, bool grew);
  // With nothing in the arena: waits until `bytes` are left and stay so. False when others have not
  // let go of them in time.
  bool wait_for(std::uint64_t bytes);

  std::string limiter() const { return source_->limiter(); }
  std::uint64_t left_bytes() const { return newest().bytes; }
  double now_s() const { return source_->now_s(); }

 private:
  struct Sample {
    double time_s = 0;
    std::uint64_t bytes = kNoLimit;
  };
  static constexpr std::size_t kSamples = 16;
  const Sample& newest() const { return samples_[(taken_ + kSamples - 1) % kSamples]; }
  void sample(double now);
  double loss_per_second() const;
  std::uint64_t forecast() const;
  std::optional<BudgetChange> shrink(const Holding& holding);
  std::optional<BudgetChange> grow(const Holding& holding);

  std::shared_ptr<HeadroomSource> source_;
  std::uint64_t ceiling_;
  std::array<Sample, kSamples> samples_{};
  std::size_t taken_ = 0;
  double stalled_ = 0;
  double last_call_s_ = 0, longest_gap_s_ = 0;  // between calls: a step cannot be interrupted
  double change_s_;                             // what a change takes
  double calm_needed_s_, calm_since_s_ = 0;     // before it grows
  std::uint64_t calm_room_ = kNoLimit;          // the least since then
  std::optional<double> grown_s_;               // not squeezed again yet
  double stalled_until_s_ = 0;
};

}  // namespace surefit
