// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "surefit/callbacks.hpp"

#include "base/process_memory.hpp"
#include "base/units.hpp"
#include "train/callbacks/progress_line.hpp"

namespace surefit {
namespace {

// The middle of all slopes between two epochs: one odd epoch does not move it.
double growth_per_epoch(const std::vector<double>& bytes) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (std::size_t j = i + 1; j < bytes.size(); ++j)
      slopes.push_back((bytes[j] - bytes[i]) / static_cast<double>(j - i));
  }
  if (slopes.empty()) return 0;
  std::nth_element(slopes.begin(), slopes.begin() + static_cast<std::ptrdiff_t>(slopes.size() / 2),
                   slopes.end());
  return slopes[slopes.size() / 2];
}

class MemoryMonitorImpl final : public Callback {
 public:
  explicit MemoryMonitorImpl(const MemoryMonitor& spec) : spec_(spec) {
    if (spec.leak_megabytes <= 0) {
      throw ConfigError(fmt::format("[MemoryMonitor.leak_megabytes] expected more than 0; got {}",
                                    spec.leak_megabytes));
    }
  }

  void on_train_begin(TrainState& state) override {
    ends_.clear();
    ends_.reserve(static_cast<std::size_t>(std::min<std::int64_t>(state.epochs(), kMost)));
    planned_ = state.memory().predicted_bytes;
  }
  // The trend begins anew; the peak is that of the largest plan.
  void on_plan_change(TrainState& state, const std::string&) override {
    ends_.clear();
    planned_ = std::max(planned_, state.memory().predicted_bytes);
  }
  void on_epoch_begin(TrainState&) override { begin_ = read_process_memory().resident_bytes; }
  void on_epoch_end(TrainState& state, const Logs&) override {
    constexpr std::size_t kEnough = 3;
    const ProcessMemory now = read_process_memory();
    // The first epoch warms up; what grows behind it is growth.
    if (state.epoch() > 0 && ends_.size() < kMost)
      ends_.push_back(static_cast<double>(now.resident_bytes));
    const double growth = growth_per_epoch(ends_);
    if (spec_.verbose) {
      ProgressLine line;
      line.add("memory: {} at the epoch's begin, {} at its end, peak {}, planned {}",
               format_bytes(begin_), format_bytes(now.resident_bytes), format_bytes(now.peak_bytes),
               format_bytes(state.memory().predicted_bytes));
      if (ends_.size() >= 2) line.add(", trend {:+.2f} MiB per epoch", growth / 0x1p20);
      line.add("\n");
      line.write(STDERR_FILENO);
    }
    if (now.peak_bytes > planned_ && !exceeded_) {
      exceeded_ = true;
      state.warn(
          fmt::format("the process holds {} where {} were planned; something outside the "
                      "training allocates",
                      format_bytes(now.peak_bytes), format_bytes(planned_)));
    }
    if (ends_.size() >= kEnough && growth > spec_.leak_megabytes * 0x1p20 && !leaked_) {
      leaked_ = true;
      state.warn(
          fmt::format("memory grows by {} per epoch: a leak outside the training (callbacks, "
                      "data functions); training itself allocates nothing after step 1",
                      format_bytes(static_cast<std::uint64_t>(growth))));
    }
  }

 private:
  static constexpr std::int64_t kMost = 1000;
  MemoryMonitor spec_;
  std::uint64_t begin_ = 0, planned_ = 0;
  std::vector<double> ends_;
  bool leaked_ = false, exceeded_ = false;
};

}  // namespace

CallbackPtr make_callback(const MemoryMonitor& spec) {
  return std::make_shared<MemoryMonitorImpl>(spec);
}

}  // namespace surefit
