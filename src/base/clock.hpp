// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace surefit {

double monotonic_seconds();         // for intervals; never jumps
double wall_seconds();              // Unix time
std::string timestamp_for_names();  // local time as 20260131-235959, for file names

}  // namespace surefit
