// SPDX-License-Identifier: Apache-2.0
#include "guard/janitor.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace surefit::guard {
namespace {

[[noreturn]] void wait_for_the_end(int pipe, const termios* terminal, pid_t child, bool own_group,
                                   const std::string& black_box) {
  ::prctl(PR_SET_NAME, "surefit-janitor");
  ::prctl(PR_SET_DUMPABLE, 0);
  for (int fd = 3; fd < 256; ++fd) {
    if (fd != pipe) ::close(fd);
  }
  ::setpgid(0, 0);  // a signal to the guard's group is not meant for us
  char goodbye = 0;
  ssize_t got = 0;
  do {
    got = ::read(pipe, &goodbye, 1);
  } while (got < 0 && errno == EINTR);
  if (got == 1) ::_exit(0);
  if (terminal != nullptr) ::tcsetattr(0, TCSADRAIN, terminal);
  const bool alive = ::kill(child, 0) == 0;
  if (alive) ::kill(own_group ? -child : child, SIGTERM);
  const std::string text =
      fmt::format("\nsurefit: the guard was killed{}{}{}\n",
                  alive ? fmt::format("; SIGTERM sent to its command (pid {})", child) : "",
                  black_box.empty() ? "" : "; black box: ", black_box);
  static_cast<void>(!::write(2, text.data(), text.size()));
  ::_exit(0);
}

}  // namespace

void Janitor::start(const termios* terminal, pid_t child, bool own_group,
                    const std::string& black_box) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(ends[1]);
    wait_for_the_end(ends[0], terminal, child, own_group, black_box);
  }
  ::close(ends[0]);
  pipe_ = ends[1];
}

void Janitor::stop() {
  if (pipe_ >= 0) {
    static_cast<void>(!::write(pipe_, "q", 1));
    ::close(pipe_);
    pipe_ = -1;
  }
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace surefit::guard
