// SPDX-License-Identifier: Apache-2.0
#include "guard/spawn.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "surefit/error.hpp"

#include "guard/proc.hpp"

extern char** environ;

namespace surefit::guard {
namespace {

// Read from a descriptor instead of interrupting.
constexpr std::array kRead{SIGCHLD, SIGINT,   SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                           SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP, SIGALRM};
// Writing to a closed pipe or to a terminal from the background must give an error, not an end.
constexpr std::array kIgnored{SIGPIPE, SIGTTOU, SIGTTIN};
std::array<bool, 65> was_ignored{};

bool write_file(const char* path, std::string_view text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return done;
}

// As a shell would find it; empty where there is none.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/bin:/bin" : path;
  std::string unusable;
  while (!rest.empty()) {
    const std::string_view directory = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), directory.size() + 1));
    std::string candidate = fmt::format("{}/{}", directory.empty() ? "." : directory, name);
    struct stat status {};
    if (::stat(candidate.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    unusable = std::move(candidate);
  }
  return unusable;
}

// Runs `found`; a text file without a first line goes to the shell, as shells do. Returns only on
// failure.
void execute(const std::string& found, std::vector<char*>& arguments) {
  if (found.empty()) {
    errno = ENOENT;
    return;
  }
  ::execv(found.c_str(), arguments.data());
  if (errno != ENOEXEC) return;
  const std::string head = slurp(found).substr(0, 256);
  if (head.find('\0') != std::string::npos || head.empty()) {
    errno = ENOEXEC;
    return;
  }
  std::string shell = "/bin/sh", script = found;
  std::vector<char*> through{shell.data(), script.data()};
  through.insert(through.end(), arguments.begin() + 1, arguments.end());
  ::execv(shell.c_str(), through.data());
}

// exec of a script says ENOENT for the script when its interpreter is missing.
std::string explain_exec(const std::string& name, int error) {
  const std::string found = find_program(name);
  struct stat status {};
  const bool exists = !found.empty() && ::stat(found.c_str(), &status) == 0;
  if (error == ENOENT && exists) {
    const std::string head = slurp(found).substr(0, 256);
    if (head.starts_with("#!")) {
      return fmt::format("{}: its interpreter does not exist: {}", found,
                         head.substr(0, head.find('\n')));
    }
    return fmt::format(
        "{}: its dynamic loader (interpreter) does not exist; built for another system", found);
  }
  if (error == EACCES && exists && S_ISDIR(status.st_mode))
    return fmt::format("{} is a directory", found);
  if (error == ENOENT) return fmt::format("{}: no such command", name);
  return fmt::format("{}: {}", exists ? found : name, std::strerror(error));
}

struct ChildReport {
  int error = 0;
  bool in_cgroup = false;
};

[[noreturn]] void run_child(const SpawnOptions& options, Streams& streams, int report_fd,
                            pid_t guard) {
  ChildReport report;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // the guard's death is no reason to run on unnoticed
  if (::getppid() != guard) ::_exit(125);
  if (!options.cgroup_procs.empty())
    report.in_cgroup = write_file(options.cgroup_procs.c_str(), "0");
  write_file("/proc/self/oom_score_adj", fmt::format("{}", options.oom_score_adj));
  if (options.raise_files) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
      limit.rlim_cur = limit.rlim_max;
      ::setrlimit(RLIMIT_NOFILE, &limit);
    }
  }
  for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
  streams.become_child();
  std::vector<char*> arguments;
  for (const std::string& word : options.command)
    arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  for (const int signal : kIgnored) {
    if (!was_ignored[static_cast<std::size_t>(signal)]) ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (report.in_cgroup) {
    static_cast<void>(!::write(report_fd, &report, sizeof(report)));
  }
  execute(find_program(options.command.front()), arguments);
  report.error = errno;
  static_cast<void>(!::write(report_fd, &report, sizeof(report)));
  ::_exit(127);
}

}  // namespace

int block_signals() {
  for (int signal = 1; signal < 65; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0)
      was_ignored[static_cast<std::size_t>(signal)] = action.sa_handler == SIG_IGN;
  }
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : kRead) ::sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  if (was_ignored[SIGCHLD])
    ::signal(SIGCHLD, SIG_DFL);  // ignored, children would vanish without a status
  for (const int signal : kIgnored) ::signal(signal, SIG_IGN);
  const int fd = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0)
    throw SystemError(fmt::format("[guard] cannot read signals: {}", std::strerror(errno)), errno);
  return fd;
}

int protect_from_oom() {
  const std::string text = slurp("/proc/self/oom_score_adj");
  const int before = std::atoi(text.c_str());
  // Lowering needs a privilege; raising the child a little does not.
  if (write_file("/proc/self/oom_score_adj", "-900")) return before;
  return std::min(1000, before + 50);
}

Spawned spawn(const SpawnOptions& options, Streams& streams) {
  std::array<int, 2> report_pipe{};
  if (::pipe2(report_pipe.data(), O_CLOEXEC) != 0)
    throw SystemError(fmt::format("[guard] cannot open a pipe: {}", std::strerror(errno)), errno);
  const pid_t guard = ::getpid();
  Spawned result;
  result.pid = ::fork();
  if (result.pid < 0) {
    const int error = errno;
    ::close(report_pipe[0]);
    ::close(report_pipe[1]);
    throw SystemError(fmt::format("[guard] cannot start a process: {}; expected room for one more; "
                                  "raise `ulimit -u` or pids.max",
                                  std::strerror(error)),
                      error);
  }
  if (result.pid == 0) run_child(options, streams, report_pipe[1], guard);
  ::close(report_pipe[1]);
  ChildReport report;
  while (true) {
    ChildReport next;
    const ssize_t got = ::read(report_pipe[0], &next, sizeof(next));
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof(next))) break;
    report = next;
  }
  ::close(report_pipe[0]);
  streams.parent_after_fork(result.pid);
  result.in_cgroup = report.in_cgroup;
  if (report.error != 0) {
    ::waitpid(result.pid, nullptr, 0);
    result.error = report.error;
    result.error_text = explain_exec(options.command.front(), report.error);
    result.pid = -1;
  }
  return result;
}

}  // namespace surefit::guard
