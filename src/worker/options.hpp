// SPDX-License-Identifier: Apache-2.0
// Options that several verbs share, and the one way to parse them.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/arguments.hpp"

namespace surefit::worker {

struct ModelOptions {
  std::string model, input;
  std::int64_t classes = 0;
  void add_to(CLI::App& app);
  Model make() const { return make_model(model, input, classes); }
};

struct DataOptions {
  std::string data, validation;
  std::int64_t batch_size = 32;
  int threads = 0;
  void add_to(CLI::App& app, bool with_validation);
};

// Parses; returns an exit code when the program should end here (--help or a usage error).
std::optional<int> parse(CLI::App& app, std::vector<std::string> arguments);

}  // namespace surefit::worker
