// SPDX-License-Identifier: Apache-2.0
// One life of the command: from its start to the last of its processes.
#pragma once

#include <string>
#include <vector>

#include "guard/obituary.hpp"
#include "guard/sampler.hpp"
#include "guard/spawn.hpp"
#include "guard/store.hpp"
#include "guard/streams.hpp"
#include "guard/supervisor.hpp"

namespace surefit::guard {

struct AttemptOptions {
  std::vector<std::string> command;
  std::string command_text;
  std::string heartbeat_path;
  int number = 1;
  int oom_score = 0;
  double batch_scale = 1;
};

// Evidence and times are filled; diagnosis is left to the caller.
Obituary run_attempt(const SupervisorOptions& options, const AttemptOptions& attempt,
                     Streams& streams, int signal_fd, Store& store);

}  // namespace surefit::guard
