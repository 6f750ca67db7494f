// SPDX-License-Identifier: Apache-2.0
#include "ckpt/schedule.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

#include "surefit/error.hpp"

#include "base/units.hpp"

namespace surefit {
namespace {

constexpr double kMeanTimeBetweenFailures = 3600;  // of notebooks and shared machines
constexpr double kLargestShare = 0.008;            // of the time; the promise is 0.01
constexpr double kShortest = 1;                    // second
constexpr double kFirstBytesPerSecond = 200e6;     // before anything is measured

}  // namespace

SaveEvery parse_save_every(std::string_view text, std::string_view what) {
  if (text == "auto") return {};
  if (text == "never") return {.unit = SaveEvery::Unit::kNever};
  std::int64_t count = 0;
  const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc{} && count > 0) {
    const std::string_view unit = text.substr(static_cast<std::size_t>(at - text.data()));
    if (unit == "step" || unit == "steps") return {.unit = SaveEvery::Unit::kSteps, .count = count};
    if (unit == "epoch" || unit == "epochs")
      return {.unit = SaveEvery::Unit::kEpochs, .count = count};
  }
  try {
    const double seconds = parse_duration(text, what);
    if (seconds > 0) return {.unit = SaveEvery::Unit::kSeconds, .seconds = seconds};
  } catch (const ConfigError&) {  // told below, with all that is possible here
  }
  throw ConfigError(fmt::format(
      "[{}] expected auto, never, a time (30s, 10m), steps (500steps) or epochs (1epoch); got '{}'",
      what, text));
}

SaveSchedule::SaveSchedule(SaveEvery every, std::uint64_t state_bytes)
    : every_(every), cost_s_(0.005 + static_cast<double>(state_bytes) / kFirstBytesPerSecond) {}

bool SaveSchedule::exact() const {
  return every_.unit == SaveEvery::Unit::kSteps || every_.unit == SaveEvery::Unit::kEpochs;
}

bool SaveSchedule::due_after_step(double now, std::int64_t step) const {
  switch (every_.unit) {
    case SaveEvery::Unit::kAuto:
    case SaveEvery::Unit::kSeconds:
      return now - last_ >= interval_s();
    case SaveEvery::Unit::kSteps:
      return step % every_.count == 0;
    default:
      return false;
  }
}

bool SaveSchedule::due_after_epoch(std::int64_t epoch) const {
  return every_.unit == SaveEvery::Unit::kEpochs && epoch % every_.count == 0;
}

void SaveSchedule::measured(double cost_s) {
  cost_s_ = cost_s;
  patience_ = 1;
}

void SaveSchedule::failed() {
  patience_ = std::min(patience_ * 2, 16.0);
}

double SaveSchedule::interval_s() const {
  if (every_.unit == SaveEvery::Unit::kSeconds) return every_.seconds;
  const double least_lost = std::sqrt(2 * cost_s_ * kMeanTimeBetweenFailures);
  return patience_ * std::max({least_lost, cost_s_ / kLargestShare, kShortest});
}

}  // namespace surefit
