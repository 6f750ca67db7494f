// SPDX-License-Identifier: Apache-2.0
#include "run/run_directory.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.hpp"

namespace surefit {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool usable(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return ::access(path.c_str(), W_OK | X_OK) == 0;
}

double changed_at(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<double>(status.st_mtime) : -1;
}

}  // namespace

std::string fresh_run_directory(const std::string& parent, std::string_view name) {
  std::string safe;
  for (const char c : name) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
    safe += plain ? c : '_';
  }
  if (safe.empty() || safe.front() == '.') safe = "run" + safe;
  const std::string base = parent + "/" + safe.substr(0, 64) + "-" + timestamp_for_names();
  std::string path = base;
  for (int number = 2; ::access(path.c_str(), F_OK) == 0; ++number)
    path = fmt::format("{}.{}", base, number);
  return path;
}

std::string state_directory() {
  std::vector<std::string> candidates;
  if (const std::string own = environment("SUREFIT_STATE"); !own.empty()) candidates.push_back(own);
  if (const std::string xdg = environment("XDG_STATE_HOME"); !xdg.empty())
    candidates.push_back(xdg + "/surefit");
  if (const std::string home = environment("HOME"); !home.empty())
    candidates.push_back(home + "/.local/state/surefit");
  const std::string temporary = environment("TMPDIR");
  candidates.push_back(
      fmt::format("{}/surefit-{}", temporary.empty() ? "/tmp" : temporary, ::getuid()));
  for (const std::string& candidate : candidates) {
    if (usable(candidate)) return candidate;
  }
  return {};
}

std::vector<RunSummary> list_runs(const std::string& parent) {
  std::vector<RunSummary> runs;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(parent, fs::directory_options::skip_permission_denied, error)) {
    RunSummary run{.path = entry.path().string()};
    for (const char* file : {"config.json", "run.sqlite", "run.sqlite-wal", "heartbeat", "blackbox",
                             "obituary.json"}) {
      const double time = changed_at(run.path + "/" + file);
      run.changed = std::max(run.changed, time);
      const std::string_view name = file;
      if (time >= 0 && (name == "config.json" || name == "run.sqlite")) run.training = true;
    }
    if (run.changed > 0) runs.push_back(std::move(run));
  }
  std::sort(runs.begin(), runs.end(), [](const RunSummary& a, const RunSummary& b) {
    return a.changed != b.changed ? a.changed > b.changed : a.path > b.path;
  });
  return runs;
}

std::string newest_training_run(const std::string& parent) {
  for (const RunSummary& run : list_runs(parent)) {
    if (run.training) return run.path;
  }
  return {};
}

}  // namespace surefit
