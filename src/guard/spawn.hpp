// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

#include "guard/streams.hpp"

namespace surefit::guard {

struct SpawnOptions {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;  // added
  std::string cgroup_procs;                        // file to write the pid to; empty = none
  int oom_score_adj = 0;
  bool raise_files = false;  // soft limit of open files up to the hard one
};

struct Spawned {
  pid_t pid = -1;
  int error = 0;  // errno of exec; pid is reaped then
  std::string error_text;
  bool in_cgroup = false;
};

// Starts the command on the streams. Signals have their default meaning again in the child, except
// those that were ignored when the guard started (nohup).
Spawned spawn(const SpawnOptions& options, Streams& streams);

// To be called once, first thing: blocks the signals that the guard reads from a descriptor,
// remembers ignored ones.
int block_signals();

// Makes the guard the last to be killed; gives the score the child should get.
int protect_from_oom();

}  // namespace surefit::guard
