// SPDX-License-Identifier: Apache-2.0
#include "base/clock.hpp"

#include <array>
#include <ctime>

namespace surefit {
namespace {

double read_clock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

double monotonic_seconds() {
  return read_clock(CLOCK_MONOTONIC);
}
double wall_seconds() {
  return read_clock(CLOCK_REALTIME);
}

std::string timestamp_for_names() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &local);
  return text.data();
}

}  // namespace surefit
