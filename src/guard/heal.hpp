// SPDX-License-Identifier: Apache-2.0
// Whether and how to bring a run back. A pure function of what happened, so that tests can tell
// whole stories.
#pragma once

#include <string>
#include <vector>

#include "guard/diagnosis.hpp"

namespace surefit::guard {

struct HealPolicy {
  int max_restarts = 0;
  bool own_trainer = false;
  bool has_oom_command = false;  // --on-oom
};

struct Attempt {
  std::string cause;
  std::uint64_t step = 0;  // from the heartbeat; 0 where there is none
  bool has_step = false;
  double elapsed_s = 0;
};

struct Decision {
  bool restart = false;
  double wait_s = 0;
  bool after_oom = false;  // with less: --memory lowered, --on-oom, a smaller batch scale
  std::string reason;      // for the obituary
};

// `attempts` holds all so far, the one that just died last.
Decision decide(const HealPolicy& policy, const std::vector<Attempt>& attempts,
                const Verdict& verdict);

// A lower budget for our trainer after an OOM kill: below what it had and below what is left now.
std::uint64_t lower_budget(std::uint64_t previous, std::uint64_t available_now);

}  // namespace surefit::guard
