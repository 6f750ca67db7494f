// SPDX-License-Identifier: Apache-2.0
// Deaths by somebody else's hand: the guard's own, the kernel's out-of-memory killer, signals from
// outside.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <signal.h>

#include "base/clock.hpp"
#include "base/units.hpp"
#include "guard/diagnosis.hpp"
#include "guard/words.hpp"

namespace surefit::guard {
namespace {

using enum Confidence;
using Kind = KernelRecord::Kind;

std::optional<Finding> cannot_execute(const Evidence& e) {
  if (e.exec_error.empty()) return std::nullopt;
  const char* advice = "check the name and the working directory";
  if (e.exec_errno == ENOENT && e.exec_error.find("interpreter") == std::string::npos) {
    advice = "check the spelling and PATH; `command -v NAME` shows what the shell would run";
  } else if (e.exec_errno == EACCES) {
    advice =
        "make it executable (chmod +x) or name its interpreter, e.g. `surefit run -- python3 "
        "train.py`";
  } else if (e.exec_errno == ENOEXEC) {
    advice =
        "it is no program for this machine, or a script without a first line such as #!/bin/sh";
  } else if (e.exec_errno == E2BIG) {
    advice = "arguments and environment are too long together; pass a file instead";
  }
  return Finding{kCertain, e.exec_error, advice};
}

std::optional<Finding> time_limit(const Evidence& e) {
  if (e.action != GuardAction::kTimeLimit) return std::nullopt;
  return Finding{kCertain,
                 fmt::format("--max-time {} was over after {}", format_duration(e.max_time_s),
                             format_duration(e.elapsed_s)),
                 "raise --max-time, or continue from the last checkpoint"};
}

std::optional<Finding> hang(const Evidence& e) {
  if (e.action != GuardAction::kHang) return std::nullopt;
  std::string evidence =
      fmt::format("no CPU, no I/O, no output{} for {}", e.heartbeat ? ", no heartbeat" : "",
                  format_duration(e.idle_s));
  if (!e.waiting.empty()) evidence += "; main thread waits for " + e.waiting;
  if (e.processes_lost > 0)
    evidence += fmt::format("; {} of its processes ended before", e.processes_lost);
  return Finding{kProbable, evidence,
                 "a deadlock, often fork with OpenMP or OpenCV threads: try OMP_NUM_THREADS=1, "
                 "cv2.setNumThreads(0), or "
                 "the spawn start method; a lost worker also looks like this"};
}

std::optional<Finding> leak_restart(const Evidence& e) {
  if (e.action != GuardAction::kLeak) return std::nullopt;
  return Finding{kCertain, "--restart-before-leak: " + memory_story(e),
                 "find the leak; the guard only buys time"};
}

std::optional<Finding> guard_memory(const Evidence& e) {
  if (e.action != GuardAction::kMemory) return std::nullopt;
  return Finding{kCertain,
                 fmt::format("--max-memory: {} MiB resident of {} allowed",
                             mebibytes(static_cast<double>(e.rss_peak)),
                             mebibytes(static_cast<double>(e.limit))),
                 "use less (smaller batch, shorter buffers) or raise --max-memory"};
}

std::string oom_advice(const Evidence& e, std::uint64_t limit) {
  if (e.own_trainer) return "the guard resumes with a lower --memory; the bits stay the same";
  std::string advice;
  if (e.curve.shape == Shape::kLinear || e.curve.shape == Shape::kStaircase) {
    const double reach =
        e.curve.bytes_per_second > 0 ? static_cast<double>(limit) / e.curve.bytes_per_second : 0;
    advice = fmt::format("fix the leak ({} MiB/s: twice the memory would only last {} longer)",
                         mebibytes(e.curve.bytes_per_second), format_duration(reach));
  } else {
    advice =
        "halve the batch size (SUREFIT_SUGGESTED_BATCH_SCALE=0.5), shorten shuffle and prefetch "
        "buffers, or use fewer workers";
  }
  return advice +
         fmt::format("; or raise the limit above {} MiB", mebibytes(static_cast<double>(limit)));
}

std::string group_name(const MemoryChange& group) {
  const std::size_t slash = group.end.path.rfind('/');
  return group.own                    ? "the guard's group"
         : slash == std::string::npos ? group.end.path
                                      : group.end.path.substr(slash);
}

// What the counters say of the group whose limit was hit.
std::string counters_line(const Evidence& e, const OomCount& count) {
  std::string line;
  if (count.kills > 0) {
    line = fmt::format(
        "{} oom_kill +{}",
        !e.groups.empty() && e.groups.front().end.v2 ? "memory.events" : "memory.oom_control",
        count.kills);
  }
  if (count.limit != nullptr) {
    line += fmt::format(
        "{}limit of {} hit: peak {} of {} MiB", line.empty() ? "" : "; ", group_name(*count.limit),
        mebibytes(static_cast<double>(std::min(count.limit->end.peak, count.limit->end.limit))),
        mebibytes(static_cast<double>(count.limit->end.limit)));
  }
  return line;
}

std::optional<Finding> worker_oom(const Evidence& e) {
  // A parent that waits forever for its killed worker is stopped as hung; the kill is the cause.
  const bool hung = e.action == GuardAction::kHang;
  const bool failed = !died_of_or_wrapped(e, SIGKILL) && !e.exit.signaled && e.exit.number != 0;
  if (!hung && !failed) return std::nullopt;
  const OomCount count = count_ooms(e);
  const KernelRecord* record = e.kernel_record(Kind::kMemcgOom);
  if (record == nullptr) record = e.kernel_record(Kind::kHostOom);
  if (count.kills == 0 && record == nullptr) return std::nullopt;
  // Another death with a word of its own may merely coincide; the parent must show that it missed a
  // child.
  const auto text =
      line_with_any(e.stderr_tail, {"killed by signal", "worker", "Worker", "BrokenProcessPool",
                                    "Killed", "SIGKILL", "signal 9", "-9"});
  std::string evidence =
      record != nullptr ? "kernel log: " + record->text : counters_line(e, count);
  if (text) evidence += "; parent: " + *text;
  return Finding{record != nullptr || e.groups.front().own ? kCertain : kProbable, evidence,
                 fmt::format("a child process was killed for memory, not the parent: fewer workers "
                             "or a smaller prefetch; {}",
                             memory_story(e))};
}

std::optional<Finding> memory_limit(const Evidence& e) {
  if (!died_of_or_wrapped(e, SIGKILL)) return std::nullopt;
  const OomCount count = count_ooms(e);
  const KernelRecord* record = e.kernel_record(Kind::kMemcgOom);
  const std::uint64_t limit = count.limit != nullptr ? count.limit->end.limit : e.limit;
  if (record != nullptr) {
    const std::string counters = counters_line(e, count);
    return Finding{
        kCertain,
        fmt::format("kernel log: {}{}{}", record->text, counters.empty() ? "" : "; ", counters),
        oom_advice(e, limit == kNoLimit ? e.rss_peak : limit)};
  }
  const bool own = !e.groups.empty() && e.groups.front().own;
  if (count.kills > 0 && count.limit != nullptr) {
    // In a shared group the victim may have been somebody else, unless this tree held most of it.
    const bool ours = own || e.rss_peak > limit / 2;
    return Finding{ours ? kCertain : kProbable, counters_line(e, count) + "; " + memory_story(e),
                   oom_advice(e, limit)};
  }
  // No counter to ask: a full group makes it likely, never sure.
  if (!count.known && e.limit != kNoLimit && e.used_last >= e.limit / 100 * 95) {
    return Finding{kProbable,
                   fmt::format("SIGKILL at {} of {} MiB; the group's oom counters cannot be read",
                               mebibytes(static_cast<double>(e.used_last)),
                               mebibytes(static_cast<double>(e.limit))),
                   oom_advice(e, e.limit)};
  }
  return std::nullopt;
}

std::optional<Finding> host_memory(const Evidence& e) {
  if (!died_of_or_wrapped(e, SIGKILL)) return std::nullopt;
  const KernelRecord* record = e.kernel_record(Kind::kHostOom);
  const OomCount count = count_ooms(e);
  const bool scarce = e.mem_total > 0 && e.mem_available < e.mem_total / 20;
  const std::string machine = fmt::format("{} of {} MiB were available; this tree held {} MiB",
                                          mebibytes(static_cast<double>(e.mem_available)),
                                          mebibytes(static_cast<double>(e.mem_total)),
                                          mebibytes(static_cast<double>(e.rss_last)));
  const std::string advice =
      e.rss_last > e.mem_total / 2
          ? "this program used most of the machine: set --max-memory, or shrink the batch"
          : "other programs used the memory: stop them, or add swap; the guard can keep this one "
            "small with --max-memory";
  if (record != nullptr)
    return Finding{kCertain, "kernel log: " + record->text + "; " + machine, advice};
  if (count.kills > 0 && count.limit == nullptr) {
    return Finding{kCertain,
                   fmt::format("oom_kill +{} in our group without any limit of it being hit; {}",
                               count.kills, machine),
                   advice};
  }
  if (e.host_oom_kills.value_or(0) > 0 && scarce && !(count.known && count.kills == 0)) {
    return Finding{kProbable,
                   fmt::format("/proc/vmstat oom_kill +{}; {}", *e.host_oom_kills, machine),
                   advice};
  }
  return std::nullopt;
}

std::optional<Finding> oom_daemon(const Evidence& e) {
  if (!died_of_or_wrapped(e, SIGKILL) && !died_of_or_wrapped(e, SIGTERM)) return std::nullopt;
  if (e.passed_signal != 0) return std::nullopt;
  const bool scarce = e.mem_total > 0 && e.mem_available < e.mem_total / 10;
  if (!(e.memory_full_peak > 10 && scarce)) return std::nullopt;
  return Finding{kProbable,
                 fmt::format("{} without a kernel OOM record while everything stalled {:.0f} % on "
                             "memory and {} of {} MiB were available",
                             signal_name(e.exit.signaled ? e.exit.number : e.exit.number - 128),
                             e.memory_full_peak, mebibytes(static_cast<double>(e.mem_available)),
                             mebibytes(static_cast<double>(e.mem_total))),
                 "a user-space OOM daemon (systemd-oomd, earlyoom) probably chose it: journalctl "
                 "-u systemd-oomd -u earlyoom; "
                 "set ManagedOOMPreference=avoid or earlyoom --avoid, or use less memory"};
}

std::optional<Finding> passed_signal(const Evidence& e) {
  if (e.action != GuardAction::kPassedSignal || e.passed_signal == 0) return std::nullopt;
  if (e.passed_signal == SIGINT) {
    return Finding{kCertain, "SIGINT (Ctrl-C), passed on by the guard", "nothing to fix"};
  }
  return Finding{kCertain,
                 fmt::format("{} came to the guard from {} and was passed on",
                             signal_name(e.passed_signal), e.passed_from),
                 e.passed_signal == SIGTERM
                     ? "somebody asked it to stop: a user, a service manager or a batch system"
                     : "somebody sent this signal"};
}

// A batch system's limit, told by its environment.
std::optional<Finding> session_limit(const Evidence& e) {
  const bool term = died_of_or_wrapped(e, SIGTERM), kill = died_of_or_wrapped(e, SIGKILL);
  if (!term && !kill) return std::nullopt;
  if (const auto end = e.environment.find("SLURM_JOB_END_TIME"); end != e.environment.end()) {
    const double left = std::strtod(end->second.c_str(), nullptr) - wall_seconds();
    if (left < 120) {
      return Finding{
          kProbable,
          fmt::format("{} at SLURM's end time ({:.0f} s left)",
                      signal_name(term ? SIGTERM : SIGKILL), left),
          "ask for more time (--time), or stop in time with --max-time or --deadline and resume"};
    }
  }
  const bool kaggle = std::any_of(e.environment.begin(), e.environment.end(),
                                  [](const auto& v) { return v.first.starts_with("KAGGLE_"); });
  const auto near = [&](double hours) {
    return e.elapsed_s > hours * 3600 * 0.97 && e.elapsed_s < hours * 3600 * 1.03;
  };
  if (kaggle && (near(9) || near(12))) {
    return Finding{kProbable,
                   fmt::format("killed after {} on Kaggle", format_duration(e.elapsed_s)),
                   "sessions end after 9 h (GPU) or 12 h: use --max-time 8h50m and resume"};
  }
  return std::nullopt;
}

// Where soft and hard limit are the same, the kernel sends SIGKILL instead of SIGXCPU. It counts
// whole ticks for the limit, so on a busy machine the exact CPU time may be a little below.
std::optional<Finding> cpu_time(const Evidence& e) {
  if (!died_of(e, SIGKILL) || e.limits.cpu_seconds == kNoLimit) return std::nullopt;
  const auto limit = static_cast<double>(e.limits.cpu_seconds);
  if (e.cpu_seconds < limit - std::max(0.3, 0.02 * limit)) return std::nullopt;
  return Finding{kCertain,
                 fmt::format("SIGKILL after {:.1f} s of CPU time; hard limit {} s", e.cpu_seconds,
                             e.limits.cpu_seconds),
                 "raise `ulimit -t`"};
}

std::optional<Finding> killed(const Evidence& e) {
  if (!died_of_or_wrapped(e, SIGKILL)) return std::nullopt;
  const OomCount count = count_ooms(e);
  const bool wrapped = !e.exit.signaled;
  std::string evidence =
      wrapped ? "exit status 137: the program's own child died of SIGKILL, as a shell reports it"
              : "SIGKILL";
  const bool full = e.limit != kNoLimit && e.used_last >= e.limit / 100 * 80;
  if (count.known && count.kills == 0) {
    evidence += fmt::format("; no OOM counter rose, so not memory; {}", memory_story(e));
    return Finding{wrapped && e.processes_peak < 2 ? kPossible : kProbable, evidence,
                   "somebody or something sent kill -9: an operator, a session or job limit, a "
                   "platform's supervisor; look at its log"};
  }
  evidence += fmt::format("; OOM counters cannot be read; {}", memory_story(e));
  return Finding{kPossible, evidence,
                 full ? "memory was high, so the kernel may have killed it; run as root or with a "
                        "delegated cgroup to know"
                      : "memory was not high; probably kill -9 from outside"};
}

template <int kSignal>
std::optional<Finding> plain_signal(const Evidence& e) {
  if (!died_of(e, kSignal)) return std::nullopt;
  switch (kSignal) {
    case SIGTERM:
      return Finding{
          kCertain, "ended by SIGTERM, sent to it directly",
          "somebody asked it to stop: a user, a service manager, preemption of a spot machine"};
    case SIGHUP:
      return Finding{kCertain, "ended by SIGHUP",
                     "its terminal was closed: start it in tmux, with nohup or setsid"};
    case SIGINT:
      return Finding{kCertain, "ended by SIGINT (Ctrl-C or a notebook's interrupt)",
                     "nothing to fix"};
    case SIGQUIT:
      return Finding{kCertain, "ended by SIGQUIT (Ctrl-\\)", "nothing to fix"};
    case SIGPIPE:
      return Finding{
          kCertain, "ended by SIGPIPE: the reader of its output went away",
          "the program behind the pipe (head, tee, less) ended first; write to a file instead"};
    case SIGXCPU:
      return Finding{
          kCertain,
          fmt::format("ended by SIGXCPU; limit {} s of CPU time",
                      e.limits.cpu_seconds == kNoLimit ? std::string("unknown")
                                                       : fmt::format("{}", e.limits.cpu_seconds)),
          "raise `ulimit -t`"};
    case SIGXFSZ:
      return Finding{kCertain,
                     fmt::format("ended by SIGXFSZ; file size limit {}",
                                 e.limits.file_size == kNoLimit ? std::string("unknown")
                                                                : format_bytes(e.limits.file_size)),
                     "raise `ulimit -f`, or write smaller checkpoints"};
    default:
      return std::nullopt;
  }
}

constexpr std::array kRules{
    Rule{"cannot-execute", "the command could not be started", Retry::kNever, cannot_execute},
    Rule{"time-limit", "stopped at the guard's time limit", Retry::kNever, time_limit},
    Rule{"worker-oom", "a worker process was killed for memory", Retry::kLessMemory, worker_oom},
    Rule{"hang", "hung, and stopped by the guard", Retry::kTransient, hang},
    Rule{"leak-restart", "stopped by the guard before the leak hit the limit", Retry::kTransient,
         leak_restart},
    Rule{"memory-limit", "stopped at the guard's memory limit", Retry::kLessMemory, guard_memory},
    Rule{"memory-limit", "killed at the memory limit (cgroup OOM)", Retry::kLessMemory,
         memory_limit},
    Rule{"host-memory", "the machine ran out of memory (host OOM)", Retry::kLessMemory,
         host_memory},
    Rule{"oom-daemon", "killed by a user-space OOM daemon", Retry::kLessMemory, oom_daemon},
    Rule{"session-limit", "the session's or job's time was over", Retry::kNever, session_limit},
    Rule{"stopped", "stopped on request", Retry::kNever, passed_signal},
    Rule{"cpu-time-limit", "hard CPU time limit (ulimit -t)", Retry::kNever, cpu_time},
    Rule{"killed", "killed from outside (SIGKILL)", Retry::kTransient, killed},
    Rule{"terminated", "terminated from outside (SIGTERM)", Retry::kNever, plain_signal<SIGTERM>},
    Rule{"hangup", "its terminal went away (SIGHUP)", Retry::kNever, plain_signal<SIGHUP>},
    Rule{"interrupted", "interrupted (SIGINT)", Retry::kNever, plain_signal<SIGINT>},
    Rule{"quit", "quit (SIGQUIT)", Retry::kNever, plain_signal<SIGQUIT>},
    Rule{"pipe-closed", "the reader of its output went away (SIGPIPE)", Retry::kNever,
         plain_signal<SIGPIPE>},
    Rule{"cpu-time-limit", "CPU time limit (ulimit -t)", Retry::kNever, plain_signal<SIGXCPU>},
    Rule{"file-size-limit", "file size limit (ulimit -f)", Retry::kNever, plain_signal<SIGXFSZ>},
};

}  // namespace

std::span<const Rule> killed_rules() {
  return kRules;
}

}  // namespace surefit::guard
