// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "surefit/error.hpp"

namespace surefit::cli {

// Parses; gives an exit code where help was asked for. Mistakes become ConfigError in the project's words.
inline std::optional<int> parse(CLI::App& app, std::vector<std::string> arguments) {
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes them last first
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw ConfigError("[" + app.get_name() + "] " + error.what() + "; see " + app.get_name() + " --help");
  }
  return std::nullopt;
}

}  // namespace surefit::cli
