// SPDX-License-Identifier: Apache-2.0
#include "train/callbacks/monitor.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

#include "base/check.hpp"

namespace surefit {

Monitor::Monitor(std::string name, const std::string& mode, const std::string& where)
    : name_(std::move(name)), where_(where) {
  if (mode != "auto" && mode != "min" && mode != "max") {
    throw ConfigError(fmt::format("[{}.mode] expected auto, min or max; got '{}'", where, mode));
  }
  // Keras 3 guesses by the metric's direction: accuracies grow, losses and errors shrink.
  const bool grows = name_.ends_with("acc") || name_.find("accuracy") != std::string::npos ||
                     name_.ends_with("auc");
  maximize_ = mode == "max" || (mode == "auto" && grows);
}

double Monitor::worst() const {
  const double infinity = std::numeric_limits<double>::infinity();
  return maximize_ ? -infinity : infinity;
}

bool Monitor::better(double value, double best, double min_delta) const {
  return maximize_ ? value - min_delta > best : value + min_delta < best;
}

void Monitor::check(const TrainState& state) const {
  const std::vector<std::string> names = state.log_names();
  if (std::find(names.begin(), names.end(), name_) != names.end()) return;
  throw ConfigError(fmt::format("[{}.monitor] no such number; expected one of: {}; got '{}'{}",
                                where_, fmt::join(names, ", "), name_,
                                name_.starts_with("val_") ? "; is there validation data?" : ""));
}

double Monitor::value(const Logs& logs) const {
  const double* value = find_log(logs, name_);
  SUREFIT_CHECK(value != nullptr, "no {} among the logs", name_);
  return *value;
}

}  // namespace surefit
