// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <unistd.h>

#include "surefit/error.hpp"

#include "base/clock.hpp"
#include "cli/verbs.hpp"
#include "guard/supervisor.hpp"
#include "run/run_directory.hpp"

namespace surefit::cli {
namespace {

namespace fs = std::filesystem;

std::string find_worker(const std::string& verb) {
  if (const char* other = std::getenv("SUREFIT_WORKER"); other != nullptr && *other != '\0')
    return other;
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path worker =
      self.parent_path().parent_path() / "libexec" / "surefit" / "surefit-train";
  if (::access(worker.c_str(), X_OK) != 0) {
    throw SystemError(
        fmt::format("[surefit {}] the worker is missing; expected {}; got {}; install or build "
                    "surefit-train (known without it: run, watch, doctor, runs)",
                    verb, worker.string(), std::strerror(errno)),
        errno);
  }
  return worker.string();
}

// Takes `--name VALUE` or `--name=VALUE` out of the arguments.
std::optional<std::string> take_option(Arguments& arguments, const std::string& name,
                                       bool keep = false) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
    if (arguments[i].starts_with(name + "=")) {
      std::string value = arguments[i].substr(name.size() + 1);
      if (!keep) arguments.erase(at);
      return value;
    }
    if (arguments[i] == name) {
      if (i + 1 >= arguments.size())
        throw ConfigError(fmt::format(
            "[surefit train] {} needs a value; expected {} VALUE; got the end of the line", name,
            name));
      std::string value = arguments[i + 1];
      if (!keep) arguments.erase(at, at + 2);
      return value;
    }
  }
  return std::nullopt;
}

bool has_flag(const Arguments& arguments, const std::string& name) {
  return std::find(arguments.begin(), arguments.end(), name) != arguments.end();
}

[[noreturn]] void execute(const std::string& worker, const std::string& verb,
                          const Arguments& arguments) {
  std::vector<std::string> words{worker, verb};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(worker.c_str(), pointers.data());
  throw SystemError(
      fmt::format("[surefit {}] cannot start {}: {}", verb, worker, std::strerror(errno)), errno);
}

// The front must know the run directory, for the heartbeat is in it; so it chooses where the user
// did not.
std::string run_directory_for(const Arguments& arguments) {
  if (has_flag(arguments, "--resume")) {
    if (std::string newest = newest_training_run("runs"); !newest.empty()) return newest;
  }
  Arguments copy = arguments;
  const std::string model = take_option(copy, "--model").value_or("train");
  // "seed_cnn", "model.json", "resnet18:classes=10"
  return fresh_run_directory("runs", fs::path(model.substr(0, model.find(':'))).stem().string());
}

int parse_count(const std::string& text, const char* name) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0)
    throw ConfigError(
        fmt::format("[surefit train] {}: expected a number of 0 or more; got '{}'", name, text));
  return value;
}

}  // namespace

int worker_verb(const std::string& verb, const Arguments& given) {
  Arguments arguments = given;
  const std::string worker = find_worker(verb);
  const bool wants_guard = verb == "train" && !has_flag(arguments, "--no-guard") &&
                           !has_flag(arguments, "--help") && !has_flag(arguments, "-h");
  std::erase(arguments, "--no-guard");
  guard::SupervisorOptions options;
  options.own_trainer = true;
  options.max_restarts = 5;
  if (verb == "train") {
    if (const auto text = take_option(arguments, "--max-restarts"))
      options.max_restarts = parse_count(*text, "--max-restarts");
    if (const auto path = take_option(arguments, "--report")) options.report_html = *path;
  }
  if (!wants_guard) execute(worker, verb, arguments);
  if (const auto directory = take_option(arguments, "--run", true)) {
    options.run_directory = *directory;
  } else {
    options.run_directory = run_directory_for(arguments);
    arguments.emplace_back("--run");
    arguments.push_back(options.run_directory);
  }
  // What --deadline counts from, also for a trainer that was brought back.
  ::setenv("SUREFIT_STARTED", fmt::format("{:.3f}", wall_seconds()).c_str(), 1);
  options.command = {worker, verb};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  return guard::supervise(options);
}

}  // namespace surefit::cli
