// SPDX-License-Identifier: Apache-2.0
#include "guard/attempt.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/cores.hpp"
#include "base/units.hpp"
#include "guard/janitor.hpp"
#include "guard/notices.hpp"
#include "guard/own_cgroup.hpp"
#include "guard/words.hpp"

extern char** environ;

namespace surefit::guard {
namespace {

constexpr double kTick = 0.25;

std::vector<DiskState> watched_disks(const SupervisorOptions& options) {
  std::vector<DiskState> disks;
  std::error_code error;
  const char* temporary = std::getenv("TMPDIR");
  const auto add = [&](const char* role, const std::string& path) {
    DiskState disk{.role = role, .path = path};
    if (!path.empty() && read_disk(disk)) disks.push_back(disk);
  };
  add("working directory", std::filesystem::current_path(error).string());
  add("temporary files", temporary == nullptr ? "/tmp" : temporary);
  add("/dev/shm", "/dev/shm");
  add("checkpoints", options.run_directory);
  return disks;
}

// Environment for the child: what it may adapt to, and on request what tames its libraries.
std::map<std::string, std::string> child_environment(const SupervisorOptions& options,
                                                     const AttemptOptions& attempt) {
  std::map<std::string, std::string> environment{
      {"SUREFIT_ATTEMPT", fmt::format("{}", attempt.number)},
      {"SUREFIT_SUGGESTED_BATCH_SCALE", fmt::format("{:g}", attempt.batch_scale)},
  };
  if (!options.tame) return environment;
  const std::string count = fmt::format("{}", default_threads());
  const auto set_default = [&](const char* name, const std::string& value) {
    if (std::getenv(name) == nullptr) environment[name] = value;  // the user's own word counts more
  };
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                           "NUMEXPR_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"})
    set_default(name, count);
  set_default("MALLOC_ARENA_MAX", "2");
  set_default("PYTHONFAULTHANDLER", "1");
  set_default("TF_FORCE_GPU_ALLOW_GROWTH", "true");
  return environment;
}

std::map<std::string, std::string> batch_system_environment() {
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    if (text.starts_with("SLURM_") || text.starts_with("KAGGLE_"))
      found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

class Attempt {
 public:
  Attempt(const SupervisorOptions& options, const AttemptOptions& attempt, Streams& streams,
          int signal_fd, Store& store)
      : options_(options),
        attempt_(attempt),
        streams_(streams),
        signal_fd_(signal_fd),
        store_(store),
        notices_(options, streams, store) {}

  Obituary run() {
    Obituary obituary;
    obituary.started = wall_seconds();
    std::error_code error;
    obituary.directory = std::filesystem::current_path(error).string();
    start(obituary);
    if (pid_ > 0) {
      loop();
      finish();
      obituary.evidence = std::move(sampler_->evidence());
    }
    obituary.evidence.command = attempt_.command_text;
    obituary.evidence.program = std::filesystem::path(attempt_.command.front()).filename().string();
    obituary.evidence.own_trainer = options_.own_trainer;
    obituary.evidence.attempt = attempt_.number;
    obituary.evidence.max_time_s = options_.max_time_s;
    obituary.evidence.environment = batch_system_environment();
    obituary.ended = wall_seconds();
    obituary.actions = notices_.told();
    return obituary;
  }

 private:
  void start(Obituary& obituary) {
    const CgroupChain chain(roots_of(::getpid()));
    if (options_.cgroup &&
        !group_.create(chain, fmt::format("surefit-{}-{}", ::getpid(), attempt_.number),
                       options_.max_memory) &&
        options_.max_memory != kNoLimit) {
      streams_.say(
          fmt::format("surefit: --max-memory without a memory group of its own ({}): the guard "
                      "stops the command when it sees more",
                      group_.why()));
    }
    streams_.open();
    const SpawnOptions spawn_options{.command = attempt_.command,
                                     .environment = child_environment(options_, attempt_),
                                     .cgroup_procs = group_.exists() ? group_.procs_file() : "",
                                     .oom_score_adj = attempt_.oom_score,
                                     .raise_files = options_.tame};
    const auto make_sampler = [&](const std::string& group) {
      return std::make_unique<Sampler>(SamplerOptions{.own_group = group,
                                                      .heartbeat_path = attempt_.heartbeat_path,
                                                      .disks = watched_disks(options_)});
    };
    sampler_ = make_sampler(group_.path());
    const Spawned spawned = spawn(spawn_options, streams_);
    pid_ = spawned.pid;
    if (pid_ < 0) {
      streams_.close();
      obituary.evidence.exec_error = spawned.error_text;
      obituary.evidence.exec_errno = spawned.error;
      obituary.evidence.exit.number = spawned.error == ENOENT ? 127 : 126;
      return;
    }
    in_group_ = spawned.in_cgroup;
    if (!in_group_ && group_.exists()) {
      group_.remove();
      sampler_ = make_sampler("");
    }
    sampler_->attach(pid_);
    janitor_.start(streams_.saved_terminal(), pid_, !streams_.shares_group(),
                   store_.box() == nullptr ? "" : store_.box()->path());
    identify(obituary.directory);
  }

  void identify(const std::string& directory) {
    if (store_.box() == nullptr) return;
    BlackBoxIdentity id{.guard_pid = ::getpid(), .child_pid = pid_, .start_time = wall_seconds()};
    if (const auto stat = read_stat(pid_)) id.child_start_ticks = stat->start_ticks;
    const auto put = [](auto& field, const std::string& text) {
      std::copy_n(text.data(), std::min(text.size(), field.size() - 1), field.data());
    };
    put(id.boot_id, boot_id());
    put(id.directory, directory);
    put(id.command, attempt_.command_text);
    put(id.cgroup, group_.path());
    store_.box()->identify(id);
  }

  Streams::Seen seen() {
    return [this](int stream, std::string_view bytes) {
      sampler_->output_seen(bytes.size());
      if (stream == 2 && store_.box() != nullptr) store_.box()->tail(bytes);
      notices_.look_at_output(bytes, sampler_->evidence());
    };
  }

  void loop() {
    std::vector<pollfd> polls;
    double next_tick = monotonic_seconds() + 0.02;
    double tick_length = 0.02;
    while (!dead_) {
      polls.clear();
      polls.push_back({signal_fd_, POLLIN, 0});
      streams_.add_polls(polls);
      const double wait = std::max(0.0, next_tick - monotonic_seconds());
      if (::poll(polls.data(), polls.size(), static_cast<int>(wait * 1000) + 1) < 0 &&
          errno != EINTR)
        break;
      if (polls.front().revents != 0) read_signals();
      streams_.handle(polls, seen());
      if (streams_.take_suspend_request()) stop_ourselves();
      if (dead_ || monotonic_seconds() < next_tick) continue;
      tick_length = std::min(kTick, tick_length * 2);
      tick(tick_length);
      next_tick = monotonic_seconds() + std::max(tick_length, slow_down());
    }
  }

  // A tree of a hundred processes costs a hundred reads: then samples come less often, and the
  // guard stays below half a percent of a core.
  double slow_down() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const double cpu = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                       1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    const double now = monotonic_seconds();
    if (now - cpu_since_ > 5) {
      const double share = (cpu - cpu_before_) / (now - cpu_since_);
      if (cpu_since_ > 0) stretch_ = std::clamp(stretch_ * (share > 0.0035 ? 1.5 : 0.8), 1.0, 20.0);
      cpu_since_ = now;
      cpu_before_ = cpu;
    }
    return kTick * stretch_;
  }

  void tick(double) {
    sampler_->tick();
    store_.memory(sampler_->last());
    notices_.look(*sampler_);
    check_limits();
  }

  void check_limits() {
    const double elapsed = sampler_->elapsed();
    Evidence& e = sampler_->evidence();
    if (stop_at_ > 0) {
      if (monotonic_seconds() > stop_at_) kill_tree(SIGKILL);
      return;
    }
    if (options_.max_time_s > 0 && elapsed > options_.max_time_s)
      stop(GuardAction::kTimeLimit, "time limit reached");
    const bool waits_for_user =
        e.waiting == "input from the terminal" || e.waiting == "a timer (sleep)";
    if (options_.hang_timeout_s > 0 && sampler_->idle_seconds() > options_.hang_timeout_s &&
        !waits_for_user) {
      e.idle_s = sampler_->idle_seconds();
      stop(GuardAction::kHang, "no sign of life");
    }
    if (!in_group_ && options_.max_memory != kNoLimit && e.rss_last > options_.max_memory) {
      // Without a group the guard is the limit; it knows what it did.
      e.limit = options_.max_memory;
      stop(GuardAction::kMemory, "above --max-memory");
    }
    if (options_.restart_before_leak_s > 0) {
      const auto coming = sampler_->forecast_now();
      if (coming && coming->seconds < options_.restart_before_leak_s &&
          coming->window_s > std::min(20.0, options_.restart_before_leak_s))
        stop(GuardAction::kLeak, "restart before the leak hits the limit");
    }
  }

  void stop(GuardAction action, const char* why) {
    sampler_->evidence().action = action;
    notices_.tell(fmt::format("{}: SIGTERM to the command, SIGKILL after {}", why,
                              format_duration(options_.grace_s)));
    kill_tree(SIGTERM);
    stop_at_ = monotonic_seconds() + options_.grace_s;
  }

  // The group first, then those who left it.
  void kill_tree(int signal) {
    if (!streams_.shares_group()) ::kill(-pid_, signal);
    for (const pid_t pid : others()) ::kill(pid, signal);
    if (signal == SIGTERM) {
      for (const pid_t pid : others()) ::kill(pid, SIGCONT);
    }
  }

  std::vector<pid_t> others() const {
    std::vector<pid_t> pids = tree_of(::getpid());
    pids.erase(pids.begin());
    std::erase(pids, janitor_.pid());
    return pids;
  }

  void read_signals() {
    signalfd_siginfo info{};
    while (::read(signal_fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      const auto signal = static_cast<int>(info.ssi_signo);
      switch (signal) {
        case SIGCHLD:
          reap();
          break;
        case SIGWINCH:
          streams_.window_changed();
          break;
        case SIGCONT:
          streams_.resume();
          sampler_->resumed();
          ::kill(streams_.shares_group() ? pid_ : -pid_, SIGCONT);
          break;
        case SIGTSTP:
          stop_ourselves();
          break;
        default:
          pass_on(signal, info);
      }
    }
  }

  void pass_on(int signal, const signalfd_siginfo& info) {
    Evidence& e = sampler_->evidence();
    const bool from_terminal = info.ssi_code == SI_KERNEL;
    if (e.action == GuardAction::kNone &&
        (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT)) {
      e.action = GuardAction::kPassedSignal;
      e.passed_signal = signal;
      const auto sender = read_stat(static_cast<pid_t>(info.ssi_pid));
      e.passed_from = from_terminal ? "the terminal"
                                    : fmt::format("pid {} ({}, uid {})", info.ssi_pid,
                                                  sender ? sender->name : "gone", info.ssi_uid);
    }
    if (streams_.shares_group()) {
      if (!from_terminal) ::kill(pid_, signal);  // from the terminal it got its own
    } else {
      ::kill(-pid_, signal);
    }
  }

  // Ctrl-Z: the child stopped, so the guard stops too and the shell gets its terminal back.
  void stop_ourselves() {
    streams_.suspend();
    ::kill(streams_.shares_group() ? pid_ : -pid_, streams_.interactive() ? SIGSTOP : SIGTSTP);
    ::raise(SIGSTOP);
  }

  void reap() {
    while (true) {
      siginfo_t info{};
      // First only looked at: while it is a zombie its limits can still be read.
      if (::waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0 ||
          info.si_pid == 0)
        return;
      const pid_t pid = info.si_pid;
      if (info.si_code == CLD_STOPPED) {
        int status = 0;
        ::waitpid(pid, &status, WUNTRACED | WNOHANG);
        if (pid == pid_ && streams_.interactive() && info.si_status == SIGTSTP) stop_ourselves();
        continue;
      }
      if (pid == pid_ && !dead_) {
        Evidence& e = sampler_->evidence();
        e.exit = {.signaled = info.si_code != CLD_EXITED,
                  .number = info.si_status,
                  .core = info.si_code == CLD_DUMPED};
        dead_ = true;
        sampler_->finish();
      }
      int status = 0;
      rusage usage{};
      ::wait4(pid, &status, WNOHANG, &usage);
      if (pid == pid_) {
        Evidence& e = sampler_->evidence();
        e.rss_peak = std::max(e.rss_peak, static_cast<std::uint64_t>(usage.ru_maxrss) * 1024);
      }
    }
  }

  void finish() {
    // What is in the pipes comes out; who still holds them is ended, for a supervised run ends with
    // all of its tree.
    const double patience = monotonic_seconds() + 0.5;
    while (streams_.drain(seen()) && monotonic_seconds() < patience && !others().empty())
      ::usleep(5000);
    end_leftovers();
    const double last = monotonic_seconds() + 5;
    while (streams_.drain(seen()) && monotonic_seconds() < last) ::usleep(2000);
    Evidence& e = sampler_->evidence();
    e.stderr_tail = streams_.stderr_tail();
    e.stdout_tail = streams_.stdout_tail();
    if (!e.nan_seen) notices_.look_at_tail(e);  // of streams that were not relayed
    streams_.close();
    janitor_.stop();
    group_.remove();
  }

  void end_leftovers() {
    std::vector<pid_t> left = others();
    std::erase_if(left, [](pid_t pid) {
      const auto stat = read_stat(pid);
      return !stat || stat->state == 'Z';
    });
    if (!left.empty()) {
      notices_.tell(fmt::format("{} process{} of the command {} left over: ended", left.size(),
                                left.size() == 1 ? "" : "es", left.size() == 1 ? "was" : "were"));
      for (const pid_t pid : left) ::kill(pid, SIGTERM);
      const double until = monotonic_seconds() + std::min(5.0, options_.grace_s);
      while (monotonic_seconds() < until && !others().empty()) {
        reap();
        streams_.drain(seen());
        ::usleep(10000);
      }
      for (const pid_t pid : others()) ::kill(pid, SIGKILL);
      const double end = monotonic_seconds() + 2;
      while (monotonic_seconds() < end && !others().empty()) {
        reap();
        ::usleep(5000);
      }
    }
    reap();
  }

  const SupervisorOptions& options_;
  const AttemptOptions& attempt_;
  Streams& streams_;
  int signal_fd_;
  Store& store_;
  Notices notices_;
  OwnCgroup group_;
  Janitor janitor_;
  std::unique_ptr<Sampler> sampler_;
  pid_t pid_ = -1;
  bool in_group_ = false, dead_ = false;
  double stop_at_ = 0;
  double cpu_since_ = 0, cpu_before_ = 0, stretch_ = 1;
};

}  // namespace

Obituary run_attempt(const SupervisorOptions& options, const AttemptOptions& attempt,
                     Streams& streams, int signal_fd, Store& store) {
  return Attempt(options, attempt, streams, signal_fd, store).run();
}

}  // namespace surefit::guard
