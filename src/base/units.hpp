// SPDX-License-Identifier: Apache-2.0
// Sizes and durations as users write and read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace surefit {

// "512M", "1.5G", "300MiB", "4096": binary units. Throws ConfigError naming `what`.
std::uint64_t parse_bytes(std::string_view text, std::string_view what);
// "90s", "11h50m", "1d", "250ms". Seconds. Throws ConfigError naming `what`.
double parse_duration(std::string_view text, std::string_view what);

std::string format_bytes(std::uint64_t bytes);  // "1.21 GiB"
std::string format_duration(double seconds);    // "1h 03m", "42s", "1.3s"

}  // namespace surefit
