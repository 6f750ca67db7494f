// SPDX-License-Identifier: Apache-2.0
// Options that several verbs share, and the one way to parse them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

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

// The same error with the source that the user gave instead of "[data]".
DataError name_source(const DataError& error, const DataOptions& options);
template <typename Work>
auto naming_sources(const DataOptions& options, Work&& work) {
  try {
    return work();
  } catch (const DataError& error) {
    throw name_source(error, options);
  }
}

// Refuses a file that cannot be written, before any work goes into what it would hold. Throws
// SystemError.
void check_writable(const std::string& path, const std::string& option);

// Parses; returns an exit code when the program should end here (--help or a usage error).
std::optional<int> parse(CLI::App& app, std::vector<std::string> arguments);

}  // namespace surefit::worker
