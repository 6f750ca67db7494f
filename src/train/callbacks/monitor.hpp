// SPDX-License-Identifier: Apache-2.0
// A number among the logs that should become smaller, or larger.
#pragma once

#include <string>

#include "surefit/callbacks.hpp"

namespace surefit {

class Monitor {
 public:
  // Throws ConfigError for an unknown mode.
  Monitor(std::string name, const std::string& mode, const std::string& where);

  const std::string& name() const { return name_; }
  double worst() const;  // anything is better
  // Better than `best` by more than `min_delta`. NaN never is.
  bool better(double value, double best, double min_delta = 0) const;
  // ConfigError listing what there is, when the training will not have this number.
  void check(const TrainState& state) const;
  double value(const Logs& logs) const;

 private:
  std::string name_, where_;
  bool maximize_ = false;
};

}  // namespace surefit
