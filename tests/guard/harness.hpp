// SPDX-License-Identifier: Apache-2.0
// Runs the real front on real programs and reads the obituary it leaves.
#pragma once

#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/cgroup.hpp"

namespace surefit::guard {

using Words = std::vector<std::string>;

struct Outcome {
  int status = 0;  // exit status of the front
  nlohmann::json obituary;
  std::string output;  // its stderr and stdout
  std::string cause() const { return obituary.value("cause", "none"); }
  std::string confidence() const { return obituary.value("confidence", "none"); }
};

inline std::string scratch_directory() {
  static const std::string path = [] {
    std::string name = testing::TempDir() + "surefit-guard-XXXXXX";
    return std::string(::mkdtemp(name.data()));
  }();
  return path;
}

// Whether the kernel tells who was killed for lack of memory; without that a verdict is one degree less sure.
inline bool oom_counters_readable() {
  for (const MemoryLevel& level : CgroupChain(roots_of(::getpid())).memory()) {
    if (level.oom_kill) return true;
  }
  return false;
}

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline pid_t start(const Words& words, const std::string& output,
                   const std::string& input = "/dev/null") {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const int out = ::open(output.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
  const int in = ::open(input.c_str(), O_RDONLY);
  ::dup2(in, 0);
  ::dup2(out, 1);
  ::dup2(out, 2);
  ::setenv("SUREFIT_STATE", (scratch_directory() + "/state").c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  ::_exit(126);
}

inline int wait_for(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// `options` stand before the command.
inline Outcome guarded(const Words& options, const Words& command,
                       const std::string& input = "/dev/null") {
  static int number = 0;
  const std::string base =
      scratch_directory() + "/case" + std::to_string(++number) + "-" + std::to_string(::getpid());
  Words words{SUREFIT_BINARY, "run", "--obituary", base + ".json"};
  words.insert(words.end(), options.begin(), options.end());
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  Outcome outcome;
  outcome.status = wait_for(start(words, base + ".out", input));
  outcome.output = read_all(base + ".out");
  const std::string json = read_all(base + ".json");
  if (!json.empty()) outcome.obituary = nlohmann::json::parse(json, nullptr, false);
  return outcome;
}

inline Words python(const Words& rest) {
  Words words{"/usr/bin/python3", PROVOKE_PY};
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

inline Words program(const Words& rest) {
  Words words{PROVOKE_BINARY};
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

// A memory group of its own can be made here: root, and a controller that is handed down.
inline bool groups_permitted() {
  static const bool permitted = [] {
    const Outcome outcome = guarded({"--max-memory", "64M"}, program({"oom"}));
    return outcome.obituary.is_object() && outcome.obituary["machine"]["groups"].is_array() &&
           !outcome.obituary["machine"]["groups"].empty() &&
           outcome.obituary["machine"]["groups"][0].value("own", false);
  }();
  return permitted;
}

}  // namespace surefit::guard
