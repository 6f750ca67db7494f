// SPDX-License-Identifier: Apache-2.0
#include "guard/supervisor.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "surefit/error.hpp"

#include "base/clock.hpp"
#include "base/env.hpp"
#include "base/units.hpp"
#include "guard/attempt.hpp"
#include "guard/heal.hpp"
#include "guard/obituary.hpp"
#include "guard/store.hpp"

namespace surefit::guard {
namespace {

std::string shell_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    const bool plain =
        !word.empty() && word.find_first_of(" \t\n\"'$&|;<>()*?\\") == std::string::npos;
    text += plain ? word : "'" + word + "'";
  }
  return text;
}

// --memory VALUE (or --memory=VALUE) replaced or added; --resume added.
std::vector<std::string> resumed_command(std::vector<std::string> command, std::uint64_t budget) {
  const auto drop = [&](const std::string& name, bool with_value) {
    for (std::size_t i = 1; i < command.size();) {
      if (command[i] == name) {
        const auto first = command.begin() + static_cast<std::ptrdiff_t>(i);
        command.erase(first, first + (with_value && i + 1 < command.size() ? 2 : 1));
      } else if (command[i].starts_with(name + "=")) {
        command.erase(command.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  };
  drop("--resume", false);
  command.emplace_back("--resume");
  if (budget > 0) {
    drop("--memory", true);
    command.emplace_back("--memory");
    command.push_back(fmt::format("{}", budget));
  }
  return command;
}

class Supervisor {
 public:
  explicit Supervisor(const SupervisorOptions& options)
      : options_(options), signal_fd_(block_signals()) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    child_oom_score_ = protect_from_oom();
  }
  ~Supervisor() { ::close(signal_fd_); }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  int run() {
    std::vector<std::string> command = options_.command;
    store_.open(options_.run_directory, command, options_.own_trainer);
    for (const std::string& line : store_.previous()) streams_.say(line);
    while (true) {
      Obituary obituary = one_attempt(command);
      const Evidence& e = obituary.evidence;
      if (!is_death(e)) {
        store_.end_well();
        report(obituary, false);
        return 0;
      }
      const Decision decision = judge(obituary);
      if (nothing_began(e)) {
        store_.discard();
        return exit_code(e);
      }
      store_.keep(obituary);
      report(obituary, true);
      if (!decision.restart || !pause(decision.wait_s)) {
        store_.end_badly(obituary.diagnosis.verdict.title);
        return exit_code(e);
      }
      if (decision.after_oom) batch_scale_ /= 2;
      command = next_command(command, obituary, decision);
      ++attempt_;
    }
  }

 private:
  Obituary one_attempt(const std::vector<std::string>& command) {
    AttemptOptions attempt;
    attempt.command = command;
    attempt.command_text = shell_words(command);
    attempt.number = attempt_;
    attempt.oom_score = child_oom_score_;
    attempt.batch_scale = batch_scale_;
    attempt.heartbeat_path = options_.own_trainer && !store_.directory().empty()
                                 ? store_.directory() + "/heartbeat"
                                 : "";
    return run_attempt(options_, attempt, streams_, signal_fd_, store_);
  }

  Decision judge(Obituary& obituary) {
    const Evidence& e = obituary.evidence;
    obituary.diagnosis = diagnose(e);
    const Verdict& verdict = obituary.diagnosis.verdict;
    attempts_.push_back(
        {verdict.cause, e.heartbeat ? e.heartbeat->step : 0, e.heartbeat.has_value(), e.elapsed_s});
    const HealPolicy policy{.max_restarts = options_.max_restarts,
                            .own_trainer = options_.own_trainer,
                            .has_oom_command = !options_.on_oom.empty()};
    Decision decision = decide(policy, attempts_, verdict);
    obituary.actions.push_back(decision.reason);
    obituary.earlier = earlier_;
    earlier_.push_back(fmt::format("attempt {}: {} [{}] after {}", e.attempt, verdict.title,
                                   confidence_name(verdict.confidence),
                                   format_duration(e.elapsed_s)));
    return decision;
  }

  std::vector<std::string> next_command(const std::vector<std::string>& command,
                                        const Obituary& obituary, const Decision& decision) {
    if (options_.own_trainer) {
      std::uint64_t budget = 0;
      if (decision.after_oom) {
        const Evidence& e = obituary.evidence;
        std::uint64_t before = e.rss_peak;
        if (e.heartbeat && e.heartbeat->budget_bytes > 0) before = e.heartbeat->budget_bytes;
        budget = lower_budget(before, available_now());
        streams_.say(fmt::format("surefit: resuming with --memory {} (had {})",
                                 format_bytes(budget), format_bytes(before)));
      }
      return resumed_command(command, budget);
    }
    if (decision.after_oom && !options_.on_oom.empty()) return {"/bin/sh", "-c", options_.on_oom};
    return command;
  }

  static std::uint64_t available_now() {
    return std::min(headroom(CgroupChain(roots_of(::getpid())).memory()),
                    read_machine_memory().available);
  }

  void report(const Obituary& obituary, bool death) {
    if (death && said_already(obituary)) {
      // Nothing to add on the terminal; the page and the record are still written.
    } else if (death && brief(obituary)) {
      const Verdict& v = obituary.diagnosis.verdict;
      streams_.say(fmt::format("surefit: {} [{}]: {}; {}", v.title, confidence_name(v.confidence),
                               v.evidence, v.advice));
    } else if (death) {
      const bool terminal = ::isatty(2) == 1;
      streams_.say(obituary_text(obituary, {.color = terminal && std::getenv("NO_COLOR") == nullptr,
                                            .width = terminal ? terminal_width() : 100}));
    }
    const auto write = [&](const std::string& path, const std::string& text) {
      if (path.empty()) return;
      try {
        write_file_atomically(Env::posix(), path, [&](WritableFile& file) {
          file.append(std::as_bytes(std::span(text)));
        });
      } catch (const Error& error) {
        streams_.say(fmt::format("surefit: {}", error.what()));
      }
    };
    if (death || !options_.report_html.empty())
      write(options_.report_html, obituary_html(obituary));
    if (death) write(options_.obituary_json, obituary_json(obituary));
  }

  static int terminal_width();

  // A trainer that refused its command line or plan has said why, and left nothing to tell about.
  static bool nothing_began(const Evidence& e) {
    return e.own_trainer && !e.exit.signaled && (e.exit.number == 2 || e.exit.number == 5);
  }

  // Bad data and bad numbers: the trainer's own line names the file, step or layer and what to do.
  static bool said_already(const Obituary& obituary) {
    const Evidence& e = obituary.evidence;
    return e.own_trainer && obituary.diagnosis.verdict.cause == "trainer" &&
           (e.exit.number == 3 || e.exit.number == 6);
  }

  // What the user did, or what our trainer has explained already, needs one line and no page.
  static bool brief(const Obituary& obituary) {
    const Evidence& e = obituary.evidence;
    const std::string& cause = obituary.diagnosis.verdict.cause;
    const bool by_user = cause == "interrupted" ||
                         (cause == "stopped" && (e.passed_signal == SIGINT || e.own_trainer));
    return by_user || (e.own_trainer && cause == "trainer" && e.exit.number != 70);
  }

  // False where a signal asked to stop while waiting.
  bool pause(double seconds) {
    const double until = monotonic_seconds() + seconds;
    while (true) {
      const double left = until - monotonic_seconds();
      if (left <= 0) return true;
      pollfd one{signal_fd_, POLLIN, 0};
      if (::poll(&one, 1, static_cast<int>(left * 1000) + 1) <= 0) continue;
      signalfd_siginfo info{};
      while (::read(signal_fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
        const auto signal = static_cast<int>(info.ssi_signo);
        if (signal == SIGINT || signal == SIGTERM || signal == SIGQUIT || signal == SIGHUP) {
          streams_.say("surefit: stopped while waiting to restart");
          return false;
        }
      }
    }
  }

  static int exit_code(const Evidence& e) {
    if (!e.exec_error.empty()) return e.exec_errno == ENOENT ? 127 : 126;
    return e.exit.signaled ? 128 + e.exit.number : e.exit.number;
  }

  const SupervisorOptions& options_;
  int signal_fd_;
  Streams streams_;
  Store store_;
  std::vector<Attempt> attempts_;
  std::vector<std::string> earlier_;
  int attempt_ = 1;
  int child_oom_score_ = 0;
  double batch_scale_ = 1;
};

int Supervisor::terminal_width() {
  winsize size{};
  return ::ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

}  // namespace

int supervise(const SupervisorOptions& options) {
  return Supervisor(options).run();
}

}  // namespace surefit::guard
