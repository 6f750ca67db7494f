// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "surefit/error.hpp"

namespace surefit::cli {

// The first line of every description is the usage.
class Formatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override { return {}; }
};

// Parses; gives an exit code where help was asked for. Mistakes become ConfigError in the project's
// words.
inline std::optional<int> parse(CLI::App& app, std::vector<std::string> arguments) {
  app.formatter(std::make_shared<Formatter>());
  app.get_formatter()->column_width(34);
  std::vector<std::string> reversed(arguments.rbegin(),
                                    arguments.rend());  // CLI11 takes them last first
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw ConfigError("[" + app.get_name() + "] " + error.what() + "; see " + app.get_name() +
                      " --help");
  }
  return std::nullopt;
}

}  // namespace surefit::cli
