// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "surefit/metrics.hpp"

namespace surefit {

Metric::Metric(const std::string& name) : name_(name) {
  if (name != "accuracy" && name != "acc") {
    throw ConfigError(
        fmt::format("[metrics] unknown metric '{}'; expected one of: accuracy", name));
  }
  impl_ = make_metric(Accuracy{});
}

}  // namespace surefit
