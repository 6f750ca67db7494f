// SPDX-License-Identifier: Apache-2.0
#include "guard/words.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace surefit::guard {
namespace {

// Removes CSI and OSC sequences and other control characters except line ends.
std::string without_escapes(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\x1b' && i + 1 < text.size()) {
      const char kind = text[++i];
      if (kind == '[') {
        while (i + 1 < text.size() && (text[i + 1] < '@' || text[i + 1] > '~')) ++i;
        ++i;
      } else if (kind == ']') {
        while (i + 1 < text.size() && text[i + 1] != '\a' && text[i + 1] != '\x1b') ++i;
        ++i;
      }
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 32 || c == '\n' || c == '\r' || c == '\t') clean += c;
  }
  return clean;
}

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

}  // namespace

std::vector<std::string> last_lines(std::string_view tail, std::size_t count) {
  // 256 bytes a line on average; cleaning all 64 KB for one line would be waste.
  const std::size_t enough = std::max<std::size_t>(4096, count * 400);
  if (tail.size() > enough) tail.remove_prefix(tail.size() - enough);
  const std::string clean = without_escapes(tail);
  std::vector<std::string> lines;
  std::string line;
  const auto flush = [&] {
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0)
      line.pop_back();
    if (!line.empty()) lines.push_back(line);
    line.clear();
  };
  for (const char c : clean) {
    if (c == '\n' || c == '\r') {
      flush();
    } else {
      line += c;
    }
  }
  flush();
  if (lines.size() > count)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  return lines;
}

std::optional<PythonError> last_python_error(std::string_view tail) {
  const std::vector<std::string> lines = last_lines(tail, 400);
  std::size_t header = lines.size();
  bool syntax = false;
  for (std::size_t i = lines.size(); i-- > 0;) {
    // A syntax error of the script itself has no "Traceback" line; its File line starts with two
    // blanks.
    if (lines[i].starts_with("SyntaxError:") || lines[i].starts_with("IndentationError:") ||
        lines[i].starts_with("TabError:")) {
      header = i;
      syntax = true;
      break;
    }
    if (lines[i].starts_with("Traceback (most recent call last)")) {
      header = i;
      break;
    }
  }
  if (header == lines.size()) return std::nullopt;
  PythonError error;
  std::size_t at = header;
  if (!syntax) {
    ++at;
    while (at < lines.size() && lines[at].starts_with(" ")) {
      if (lines[at].starts_with("  File \"")) error.where = lines[at].substr(2);
      ++at;
    }
    if (at >= lines.size()) return std::nullopt;  // still being printed
  }
  error.line = lines[at];
  const std::size_t colon = error.line.find(':');
  error.type = error.line.substr(0, colon);
  if (colon != std::string::npos && colon + 2 <= error.line.size())
    error.message = error.line.substr(colon + 2);
  if (error.type.empty() || !std::all_of(error.type.begin(), error.type.end(), is_name))
    return std::nullopt;
  error.final = lines.size() - at <= 12;
  return error;
}

std::optional<std::string> line_with_any(std::string_view tail,
                                         std::initializer_list<std::string_view> needles,
                                         std::size_t within_lines) {
  const std::vector<std::string> lines = last_lines(tail, within_lines);
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    for (const std::string_view needle : needles) {
      if (line->find(needle) != std::string::npos) return *line;
    }
  }
  return std::nullopt;
}

std::optional<std::string> line_with(std::string_view tail, std::string_view needle,
                                     std::size_t within_lines) {
  return line_with_any(tail, {needle}, within_lines);
}

bool tells_nan_loss(std::string_view line) {
  std::string lower(line);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (std::size_t at = lower.find("loss"); at != std::string::npos;
       at = lower.find("loss", at + 4)) {
    std::size_t value = at + 4;
    if (value < lower.size() && is_name(lower[value]) && lower[value] != '.')
      continue;  // "lossless"
    while (value < lower.size() &&
           (lower[value] == ' ' || lower[value] == ':' || lower[value] == '=' ||
            lower[value] == '"' || lower[value] == '\'' || lower[value] == '\t')) {
      ++value;
    }
    if (value == at + 4) continue;
    const std::string_view rest = std::string_view(lower).substr(value);
    for (const std::string_view word : {"is nan", "became nan", "nan", "-nan", "inf", "-inf"}) {
      if (rest.starts_with(word) && (rest.size() == word.size() || !is_name(rest[word.size()])))
        return true;
    }
  }
  return false;
}

}  // namespace surefit::guard
