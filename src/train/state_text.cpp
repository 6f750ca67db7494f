// SPDX-License-Identifier: Apache-2.0
#include "train/state_text.hpp"

#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <limits>

namespace surefit {

void StateText::open(char bracket) {
  if (bracket == '{' || bracket == '[') comma();
  out_ += bracket;
}

void StateText::comma() {
  if (!out_.empty() && out_.back() != '{' && out_.back() != '[' && out_.back() != ':') out_ += ',';
}

void StateText::name(std::string_view key) {
  comma();
  put(key);
  out_ += ':';
}

void StateText::put(std::int64_t value) {
  fmt::format_to(std::back_inserter(out_), "{}", value);
}
void StateText::put(std::uint64_t value) {
  fmt::format_to(std::back_inserter(out_), "{}", value);
}

void StateText::put(double value) {
  if (std::isfinite(value)) {
    fmt::format_to(std::back_inserter(out_), "{}",
                   value);  // the shortest text that reads back the same
  } else {
    out_ += std::isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"";
  }
}

void StateText::put(std::string_view text) {
  out_ += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out_), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out_ += c;
    }
  }
  out_ += '"';
}

double state_number(const Json& value, const JsonWhere& where) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
  }
  return require_number(value, where);
}

}  // namespace surefit
