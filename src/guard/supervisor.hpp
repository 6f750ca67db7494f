// SPDX-License-Identifier: Apache-2.0
// Runs a command, watches it, tells why it died, brings it back. One thread, one poll loop.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace surefit::guard {

struct SupervisorOptions {
  std::vector<std::string> command;
  std::string run_directory;  // where the black box and obituary go; empty = the state directory
  bool own_trainer = false;   // heartbeat, resume, lower --memory after an OOM kill
  std::uint64_t max_memory = ~std::uint64_t{0};
  double max_time_s = 0;      // 0 = none
  double grace_s = 30;        // between SIGTERM and SIGKILL
  double hang_timeout_s = 0;  // 0 = tell, but do not kill
  double idle_notice_s = 120;
  double restart_before_leak_s = 0;  // 0 = off; else the horizon
  int max_restarts = 0;
  std::string on_oom;         // shell command that takes the place of the original after an OOM
  bool tame = false;          // thread counts from the real quota, MALLOC_ARENA_MAX, open files
  std::string report_html;    // empty = none
  std::string obituary_json;  // besides the run directory
  bool quiet = false;         // no notices, only the obituary
  bool cgroup = true;
};

// The exit code the front should end with: the command's own, or 128 + n.
int supervise(const SupervisorOptions& options);

struct WatchOptions {
  int pid = 0;
  double interval_s = 0.25;
  double max_time_s = 0;
  std::string report_html;
};
// Watches a process that somebody else started; only watches. 0 = it ended or the time is over.
int watch(const WatchOptions& options);

}  // namespace surefit::guard
