// SPDX-License-Identifier: Apache-2.0
#include "guard/heal.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace surefit::guard {

Decision decide(const HealPolicy& policy, const std::vector<Attempt>& attempts,
                const Verdict& verdict) {
  Decision decision;
  const int restarts = static_cast<int>(attempts.size()) - 1;
  const bool oom = verdict.retry == Retry::kLessMemory;
  if (verdict.retry == Retry::kNever) {
    decision.reason = "not restarted: the same would happen again";
    if (verdict.cause == "stopped" || verdict.cause == "interrupted" ||
        verdict.cause == "terminated") {
      decision.reason = "not restarted: it was asked to stop";
    }
    if (verdict.cause == "time-limit" || verdict.cause == "session-limit")
      decision.reason = "not restarted: its time is over";
    return decision;
  }
  if (policy.max_restarts == 0) {
    decision.reason = "not restarted: pass --max-restarts N to have it brought back";
    return decision;
  }
  if (restarts >= policy.max_restarts) {
    decision.reason = fmt::format("gave up after {} restarts (--max-restarts)", restarts);
    return decision;
  }
  // The same end at the same step three times is poison: a bad sample or a bug, not bad luck.
  const Attempt& last = attempts.back();
  const auto same = std::count_if(attempts.begin(), attempts.end(), [&](const Attempt& a) {
    if (a.cause != last.cause || a.has_step != last.has_step) return false;
    return a.has_step ? a.step == last.step
                      : std::abs(a.elapsed_s - last.elapsed_s) < 0.1 * last.elapsed_s + 0.5;
  });
  const bool can_shrink = policy.own_trainer || policy.has_oom_command;
  if (same >= 3 && !(oom && can_shrink && last.has_step)) {
    decision.reason =
        last.has_step
            ? fmt::format("gave up: three times the same end at step {}", last.step)
            : fmt::format("gave up: three times the same end after {:.0f} s", last.elapsed_s);
    return decision;
  }
  decision.restart = true;
  decision.after_oom = oom;
  decision.wait_s = verdict.cause == "leak-restart"
                        ? 0
                        : std::min(60.0, static_cast<double>(1 << std::min(restarts, 6)));
  decision.reason = fmt::format("restarting in {:.0f} s (restart {} of {})", decision.wait_s,
                                restarts + 1, policy.max_restarts);
  return decision;
}

std::uint64_t lower_budget(std::uint64_t previous, std::uint64_t available_now) {
  const std::uint64_t smaller = previous / 100 * 85;
  const std::uint64_t fitting = available_now == kNoLimit ? smaller : available_now / 100 * 90;
  // Never below a mebibyte: the planner then refuses with its floor instead of looping here.
  return std::max<std::uint64_t>(std::uint64_t{1} << 20,
                                 previous == 0 ? fitting : std::min(smaller, fitting));
}

}  // namespace surefit::guard
