// SPDX-License-Identifier: Apache-2.0
#include "base/units.hpp"

#include <cctype>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

#include "surefit/error.hpp"

namespace surefit {
namespace {

// Reads a non-negative decimal number from the front of `text` and removes it.
bool take_number(std::string_view& text, double& value) {
  const char* begin = text.data();
  const auto [end, error] =
      std::from_chars(begin, begin + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(value) || value < 0 || *begin == '-') return false;
  text.remove_prefix(static_cast<std::size_t>(end - begin));
  return true;
}

std::string_view take_unit(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && std::isalpha(static_cast<unsigned char>(text[length])) != 0)
    ++length;
  const std::string_view unit = text.substr(0, length);
  text.remove_prefix(length);
  return unit;
}

}  // namespace

std::uint64_t parse_bytes(std::string_view text, std::string_view what) {
  const std::string_view original = text;
  double value = 0;
  double scale = 0;
  if (take_number(text, value)) {
    const std::string_view unit = take_unit(text);
    if (unit.empty() || unit == "B") scale = 1;
    if (unit == "K" || unit == "k" || unit == "KiB" || unit == "KB") scale = 0x1p10;
    if (unit == "M" || unit == "MiB" || unit == "MB") scale = 0x1p20;
    if (unit == "G" || unit == "GiB" || unit == "GB") scale = 0x1p30;
    if (unit == "T" || unit == "TiB" || unit == "TB") scale = 0x1p40;
  }
  if (scale == 0 || !text.empty() || value * scale >= 0x1p62) {
    throw ConfigError(fmt::format(
        "[{}] not a size; expected a number with K, M or G such as 512M or 1.5G; got '{}'", what,
        original));
  }
  return static_cast<std::uint64_t>(std::llround(value * scale));
}

double parse_duration(std::string_view text, std::string_view what) {
  const std::string_view original = text;
  double total = 0;
  bool good = !text.empty();
  while (good && !text.empty()) {
    double value = 0;
    good = take_number(text, value);
    if (!good) break;
    const std::string_view unit = take_unit(text);
    double scale = 0;
    if (unit == "ms") scale = 1e-3;
    if (unit == "s" || unit.empty()) scale = 1;
    if (unit == "m" || unit == "min") scale = 60;
    if (unit == "h") scale = 3600;
    if (unit == "d") scale = 86400;
    good = scale > 0;
    total += value * scale;
  }
  if (!good) {
    throw ConfigError(fmt::format(
        "[{}] not a duration; expected numbers with s, m or h such as 90s or 11h50m; got '{}'",
        what, original));
  }
  return total;
}

std::string format_bytes(std::uint64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (bytes >= std::uint64_t{1} << 30) return fmt::format("{:.2f} GiB", value / 0x1p30);
  if (bytes >= std::uint64_t{10} << 20) return fmt::format("{:.0f} MiB", value / 0x1p20);
  if (bytes >= std::uint64_t{1} << 20) return fmt::format("{:.1f} MiB", value / 0x1p20);
  if (bytes >= 1024) return fmt::format("{:.1f} KiB", value / 0x1p10);
  return fmt::format("{} B", bytes);
}

std::string format_duration(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f}s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  return fmt::format("{}h {:02}m", whole / 3600, whole % 3600 / 60);
}

}  // namespace surefit
