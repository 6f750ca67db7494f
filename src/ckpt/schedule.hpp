// SPDX-License-Identifier: Apache-2.0
// When to save. Automatic: by Young and Daly the interval sqrt(2 C M) loses least, with C the cost
// of a save and M the mean time between failures; the cost is measured at each save, and the
// interval is never so short that saving takes more than one hundredth of the time.
#pragma once

#include <cstdint>
#include <string_view>

namespace surefit {

struct SaveEvery {
  enum class Unit { kAuto, kSeconds, kSteps, kEpochs, kNever };
  Unit unit = Unit::kAuto;
  double seconds = 0;
  std::int64_t count = 0;  // steps or epochs
};
// "auto", "never", "30s", "10m", "500steps", "1epoch". Throws ConfigError naming `what`.
SaveEvery parse_save_every(std::string_view text, std::string_view what);

class SaveSchedule {
 public:
  // `state_bytes` gives a first idea of the cost.
  SaveSchedule(SaveEvery every, std::uint64_t state_bytes);

  void begin(double now) { last_ = now; }
  // After step number `step` of the run, or behind epoch number `epoch` (both from 1).
  bool due_after_step(double now, std::int64_t step) const;
  bool due_after_epoch(std::int64_t epoch) const;
  // Whether the user named the very step: then a save waits for the one before it.
  bool exact() const;
  void started(double now) { last_ = now; }
  // Seconds taken from the training by the last save.
  void measured(double cost_s);
  void failed();  // tries less often while the disk refuses
  double interval_s() const;

 private:
  SaveEvery every_;
  double cost_s_, last_ = 0, patience_ = 1;
};

}  // namespace surefit
