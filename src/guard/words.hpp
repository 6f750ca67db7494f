// SPDX-License-Identifier: Apache-2.0
// Last words: what a dying program wrote, made readable.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace surefit::guard {

// Lines without escape sequences, carriage-return overwrites and blanks at the end; the newest
// `count`.
std::vector<std::string> last_lines(std::string_view tail, std::size_t count);

struct PythonError {
  std::string type;     // "ModuleNotFoundError"
  std::string message;  // behind the colon
  std::string line;     // the whole last line
  std::string where;    // innermost 'File "x.py", line 12'
  bool final = false;   // stands at the end: nothing but a few lines came after it
};
std::optional<PythonError> last_python_error(std::string_view tail);

// The last of the final lines that holds `needle` (case matters); nothing where none does.
std::optional<std::string> line_with(std::string_view tail, std::string_view needle,
                                     std::size_t within_lines = 25);
std::optional<std::string> line_with_any(std::string_view tail,
                                         std::initializer_list<std::string_view> needles,
                                         std::size_t within_lines = 25);

// "loss: nan", "loss=NaN", "val_loss: inf" in a line.
bool tells_nan_loss(std::string_view line);

}  // namespace surefit::guard
