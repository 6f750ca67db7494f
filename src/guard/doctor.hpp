// SPDX-License-Identifier: Apache-2.0
// Looks at the machine before a long run: a few seconds, at most thirty.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace surefit::guard {

enum class Health { kOk, kWarn, kFail, kNoSensor };
std::string_view health_name(Health health);

struct Check {
  std::string name;
  Health health = Health::kOk;
  std::string found;
  std::string advice;  // empty where nothing is to be done
};

struct DoctorOptions {
  std::string directory = ".";  // where the run will write
  double memory_share = 0.125;  // of the available memory, tested with patterns
  double memory_seconds = 8;
  std::uint64_t disk_bytes = std::uint64_t{32} << 20;
};

// Calls `report` for each check as soon as it is done; gives the worst health.
Health examine(const DoctorOptions& options, const std::function<void(const Check&)>& report);

}  // namespace surefit::guard
