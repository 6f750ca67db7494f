// SPDX-License-Identifier: Apache-2.0
// The obituary: for the terminal, for programs (JSON) and as a page that opens without a network.
#pragma once

#include <string>
#include <vector>

#include "guard/diagnosis.hpp"

namespace surefit::guard {

struct Obituary {
  Evidence evidence;
  Diagnosis diagnosis;
  double started = 0, ended = 0;     // Unix time
  std::string directory;             // where the command ran
  std::vector<std::string> actions;  // what the guard did
  std::vector<std::string> earlier;  // causes of earlier attempts
  std::string saved_to;              // where obituary.json went
};

struct TextStyle {
  bool color = false;
  int width = 80;
};
std::string obituary_text(const Obituary& obituary, const TextStyle& style);
std::string obituary_json(const Obituary& obituary);
std::string obituary_html(const Obituary& obituary);

// A curve of dots, `rows` lines high; `limit` draws a line at the top where it is near.
std::vector<std::string> plot_curve(const std::vector<Point>& points, std::uint64_t limit,
                                    int columns, int rows);

}  // namespace surefit::guard
