// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "surefit/error.hpp"

#include "base/clock.hpp"
#include "base/env.hpp"
#include "base/units.hpp"
#include "guard/obituary.hpp"
#include "guard/sampler.hpp"
#include "guard/spawn.hpp"
#include "guard/supervisor.hpp"

namespace surefit::guard {
namespace {

using Kind = KernelRecord::Kind;

// A watcher is not the parent, so the kernel does not tell it the status; its log and counters may.
Diagnosis judge_from_outside(Evidence& e) {
  e.exit.known = false;
  const bool oom =
      e.kernel_record(Kind::kMemcgOom) != nullptr || e.kernel_record(Kind::kHostOom) != nullptr;
  const KernelRecord* trap = e.kernel_record(Kind::kTrap);
  if (oom) e.exit = {.signaled = true, .number = SIGKILL, .known = false};
  if (e.kernel_record(Kind::kSegfault) != nullptr)
    e.exit = {.signaled = true, .number = SIGSEGV, .known = false};
  if (trap != nullptr)
    e.exit = {.signaled = true,
              .number = trap->text.find("divide") != std::string::npos   ? SIGFPE
                        : trap->text.find("opcode") != std::string::npos ? SIGILL
                                                                         : SIGSEGV,
              .known = false};
  if (e.exit.signaled) return diagnose(e);
  Diagnosis diagnosis;
  diagnosis.verdict = {"unknown-end",
                       "it ended; a watcher is not told how",
                       Confidence::kPossible,
                       fmt::format("no kernel record names it; {}", memory_story(e)),
                       "start it with `surefit run --` to learn its status and last words",
                       Retry::kNever};
  diagnosis.patterns = find_patterns(e);
  return diagnosis;
}

class Watch {
 public:
  explicit Watch(const WatchOptions& options)
      : options_(options),
        name_(process_name()),
        sampler_({.root = options.pid, .whole_guard = false}) {
    pid_fd_ = static_cast<int>(::syscall(SYS_pidfd_open, options.pid, 0));
    if (pid_fd_ < 0 && errno == ESRCH) gone();
    command_ = command_line(options.pid);
    if (command_.empty()) command_ = name_;
    signal_fd_ = block_signals();
  }
  ~Watch() {
    if (pid_fd_ >= 0) ::close(pid_fd_);
    if (signal_fd_ >= 0) ::close(signal_fd_);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  int run() {
    const bool terminal = ::isatty(2) == 1;
    fmt::print(stderr, "surefit: watching pid {} ({}); Ctrl-C ends the watch, not the process\n",
               options_.pid, command_.substr(0, 120));
    const double started = wall_seconds();
    double next_line = 0;
    while (true) {
      std::array<pollfd, 2> polls{{{signal_fd_, POLLIN, 0}, {pid_fd_, POLLIN, 0}}};
      ::poll(polls.data(), pid_fd_ >= 0 ? 2 : 1, static_cast<int>(options_.interval_s * 1000));
      if (asked_to_stop()) return leave(terminal, "watch ended; the process lives on");
      const auto stat = read_stat(options_.pid);
      if ((polls[1].revents & POLLIN) != 0 || !stat || stat->state == 'Z') break;
      sampler_.tick();
      const double now = sampler_.elapsed();
      if (options_.max_time_s > 0 && now > options_.max_time_s)
        return leave(terminal, "time of the watch is over; the process lives on");
      if (now >= next_line) {
        show(terminal);
        next_line = now + (terminal ? 1 : 10);
      }
    }
    return tell_end(terminal, started);
  }

 private:
  [[noreturn]] void gone() const {
    throw SystemError(fmt::format("[surefit watch] no process {}; expected the pid of a running "
                                  "process; got one that has ended or never was; see ps -e",
                                  options_.pid),
                      ESRCH);
  }
  std::string process_name() const {
    const auto stat = read_stat(options_.pid);
    if (!stat || stat->state == 'Z') gone();
    return stat->name;
  }

  bool asked_to_stop() const {
    signalfd_siginfo info{};
    bool stop = false;
    while (::read(signal_fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      const auto signal = static_cast<int>(info.ssi_signo);
      stop = stop || signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
    }
    return stop;
  }

  static int leave(bool terminal, const char* words) {
    fmt::print(stderr, "{}surefit: {}\n", terminal ? "\n" : "", words);
    return 0;
  }

  void show(bool terminal) {
    const BlackBoxSample& s = sampler_.last();
    const Evidence& e = sampler_.evidence();
    std::string line = fmt::format("{} resident, {} processes, {} threads, {:.2f} cores",
                                   format_bytes(s.rss_bytes), s.processes, s.threads, s.cpu);
    if (e.limit != kNoLimit) line += fmt::format(", limit {}", format_bytes(e.limit));
    if (const auto coming = sampler_.forecast_now())
      line += fmt::format(", limit in {}", format_duration(coming->seconds));
    if (sampler_.idle_seconds() > 10)
      line += fmt::format(", idle {}{}", format_duration(sampler_.idle_seconds()),
                          e.waiting.empty() ? "" : " (waits for " + e.waiting + ")");
    fmt::print(stderr, "{}surefit: {}{}", terminal ? "\r\x1b[K" : "", line, terminal ? "" : "\n");
    std::fflush(stderr);
  }

  int tell_end(bool terminal, double started) {
    sampler_.finish();
    Obituary obituary;
    obituary.evidence = std::move(sampler_.evidence());
    obituary.evidence.command = command_;
    obituary.evidence.program = name_;
    obituary.diagnosis = judge_from_outside(obituary.evidence);
    obituary.started = started;
    obituary.ended = wall_seconds();
    obituary.actions = {"only watched"};
    if (terminal) fmt::print(stderr, "\n");
    winsize size{};
    const int width =
        terminal && ::ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 100;
    fmt::print(stderr, "{}",
               obituary_text(obituary, {.color = terminal && std::getenv("NO_COLOR") == nullptr,
                                        .width = width}));
    if (!options_.report_html.empty()) {
      const std::string html = obituary_html(obituary);
      write_file_atomically(Env::posix(), options_.report_html, [&](WritableFile& file) {
        file.append(std::as_bytes(std::span(html)));
      });
    }
    return 0;
  }

  const WatchOptions& options_;
  std::string name_, command_;
  Sampler sampler_;
  int pid_fd_ = -1, signal_fd_ = -1;
};

}  // namespace

int watch(const WatchOptions& options) {
  return Watch(options).run();
}

}  // namespace surefit::guard
