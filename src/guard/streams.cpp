// SPDX-License-Identifier: Apache-2.0
#include "guard/streams.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "surefit/error.hpp"

namespace surefit::guard {
namespace {

void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

void set_nonblocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

bool same_file(int a, int b) {
  struct stat sa {
  }, sb{};
  return ::fstat(a, &sa) == 0 && ::fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
         sa.st_ino == sb.st_ino && sa.st_rdev == sb.st_rdev;
}

bool is_regular(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

bool is_null(int fd) {
  struct stat status {
  }, null{};
  return ::fstat(fd, &status) == 0 && ::stat("/dev/null", &null) == 0 && S_ISCHR(status.st_mode) &&
         status.st_rdev == null.st_rdev;
}

[[noreturn]] void fail(const char* what) {
  throw SystemError(fmt::format("[guard] cannot {}: {}", what, std::strerror(errno)), errno);
}

// Opened anew: O_NONBLOCK on a descriptor shared with the shell would leak to everybody who shares
// it.
int reopen_for_writing(int fd) {
  return ::open(fmt::format("/proc/self/fd/{}", fd).c_str(),
                O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_APPEND);
}

}  // namespace

void Tail::append(std::string_view bytes) {
  if (ring_.empty()) ring_.resize(kBytes);
  if (bytes.size() > kBytes) {
    written_ += bytes.size() - kBytes;
    bytes.remove_prefix(bytes.size() - kBytes);
  }
  while (!bytes.empty()) {
    const std::size_t at = written_ % kBytes;
    const std::size_t count = std::min(bytes.size(), kBytes - at);
    std::memcpy(ring_.data() + at, bytes.data(), count);
    written_ += count;
    bytes.remove_prefix(count);
  }
}

std::string Tail::text() const {
  std::string result;
  const std::uint64_t kept = std::min<std::uint64_t>(written_, kBytes);
  result.reserve(kept);
  for (std::uint64_t i = written_ - kept; i < written_; ++i) result += ring_[i % kBytes];
  return result;
}

Streams::Streams() {
  const bool in = ::isatty(0) == 1, out = ::isatty(1) == 1;
  interactive_ = in && out;
  // Output goes elsewhere but keys come from the terminal: in a group of its own the child could
  // not read them.
  shares_group_ = in && !out;
}

Streams::~Streams() {
  close();
}

void Streams::open() {
  for (Relay& relay : relay_) relay = Relay{};
  from_file_ = {};
  merged_ = same_file(1, 2) && !is_null(1);
  if (interactive_) {
    termios settings{};
    winsize size{};
    ::tcgetattr(0, &settings);
    ::ioctl(1, TIOCGWINSZ, &size);
    saved_ = settings;
    Relay& terminal = relay_[0];
    if (::openpty(&terminal.from, &terminal.child_end, nullptr, &settings, &size) != 0)
      fail("open a pseudo-terminal");
    ::fcntl(terminal.from, F_SETFD, FD_CLOEXEC);
    ::fcntl(terminal.child_end, F_SETFD, FD_CLOEXEC);
    set_nonblocking(terminal.from);
    terminal.terminal = true;
    terminal.to = reopen_for_writing(1);
    terminal.own_to = terminal.to >= 0;
    if (!terminal.own_to) terminal.to = 1;
    foreground_ = ::tcgetpgrp(0) == ::getpgrp();
    input_open_ = true;
    if (foreground_) enter_raw();
  } else {
    open_output(1);
  }
  const bool second_is_first = merged_ || (interactive_ && ::isatty(2) == 1);
  if (!second_is_first) open_output(2);
}

void Streams::open_output(int fd) {
  Relay& relay = relay_[static_cast<std::size_t>(fd)];
  const auto index = static_cast<std::size_t>(fd);
  if (is_null(fd) && fd == 1) return;
  if (is_regular(fd)) {
    // Only where its end can be read later.
    const int probe = ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDONLY | O_CLOEXEC);
    if (probe >= 0) {
      struct stat status {};
      ::fstat(probe, &status);
      file_begin_[index] = status.st_size;
      ::close(probe);
      from_file_[index] = true;
      return;
    }
  }
  relay.terminal = ::isatty(fd) == 1;
  if (relay.terminal) {
    termios settings{};
    winsize size{};
    ::tcgetattr(fd, &settings);
    ::ioctl(fd, TIOCGWINSZ, &size);
    settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);  // the real terminal does it
    if (::openpty(&relay.from, &relay.child_end, nullptr, &settings, &size) != 0)
      fail("open a pseudo-terminal");
    ::fcntl(relay.from, F_SETFD, FD_CLOEXEC);
    ::fcntl(relay.child_end, F_SETFD, FD_CLOEXEC);
  } else {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("open a pipe");
    relay.from = ends[0];
    relay.child_end = ends[1];
  }
  set_nonblocking(relay.from);
  relay.to = is_regular(fd) || is_null(fd) ? -1 : reopen_for_writing(fd);
  relay.own_to = relay.to >= 0;
  if (!relay.own_to) relay.to = fd;
}

void Streams::become_child() {
  if (interactive_) {
    ::setsid();
    ::ioctl(relay_[0].child_end, TIOCSCTTY, 0);
    ::dup2(relay_[0].child_end, 0);
    ::dup2(relay_[0].child_end, 1);
    if (::isatty(2) == 1) ::dup2(relay_[0].child_end, 2);
  } else if (!shares_group_) {
    ::setpgid(0, 0);
  }
  if (relay_[1].child_end >= 0) {
    ::dup2(relay_[1].child_end, 1);
    if (merged_) ::dup2(relay_[1].child_end, 2);
  }
  if (relay_[2].child_end >= 0) ::dup2(relay_[2].child_end, 2);
}

void Streams::parent_after_fork(pid_t child) {
  child_ = child;
  for (Relay& relay : relay_) close_fd(relay.child_end);
}

void Streams::close() {
  suspend();
  for (Relay& relay : relay_) {
    close_fd(relay.from);
    close_fd(relay.child_end);
    if (relay.own_to) close_fd(relay.to);
    relay.to = -1;
    relay.own_to = false;
  }
}

void Streams::enter_raw() {
  termios raw = saved_;
  ::cfmakeraw(&raw);
  raw_ = ::tcsetattr(0, TCSADRAIN, &raw) == 0;
}

void Streams::suspend() {
  if (raw_) ::tcsetattr(0, TCSADRAIN, &saved_);
  raw_ = false;
}

void Streams::resume() {
  if (!interactive_ || relay_[0].from < 0) return;
  foreground_ = ::tcgetpgrp(0) == ::getpgrp();
  if (foreground_) enter_raw();
  window_changed();
}

void Streams::window_changed() {
  for (const Relay& relay : relay_) {
    if (relay.from < 0 || !relay.terminal) continue;
    winsize size{};
    if (::ioctl(relay.to, TIOCGWINSZ, &size) == 0) ::ioctl(relay.from, TIOCSWINSZ, &size);
  }
}

void Streams::add_polls(std::vector<pollfd>& polls) const {
  if (interactive_ && foreground_ && raw_ && input_open_) polls.push_back({0, POLLIN, 0});
  for (const Relay& relay : relay_) {
    if (relay.pending.empty()) {
      if (relay.from >= 0) polls.push_back({relay.from, POLLIN, 0});
    } else {
      polls.push_back({relay.to, POLLOUT, 0});
    }
  }
}

void Streams::handle(const std::vector<pollfd>& polls, const Seen& seen) {
  const auto ready = [&](int fd, short events) {
    return std::any_of(polls.begin(), polls.end(), [&](const pollfd& p) {
      return p.fd == fd && (p.events & events) != 0 && p.revents != 0;
    });
  };
  if (interactive_ && ready(0, POLLIN)) relay_keys();
  for (std::size_t i = 0; i < relay_.size(); ++i) {
    Relay& relay = relay_[i];
    if (!relay.pending.empty() && ready(relay.to, POLLOUT)) write_out(relay);
    if (relay.pending.empty() && relay.from >= 0 && ready(relay.from, POLLIN))
      read_from(relay, i == 1 && !merged_ ? 1 : 2, seen);
  }
}

// A shell inside handles Ctrl-Z for its own jobs, an editor reads it as a key; only a plain program
// needs our help.
bool Streams::child_is_orphaned_foreground() const {
  termios settings{};
  return ::tcgetattr(relay_[0].from, &settings) == 0 && (settings.c_lflag & ISIG) != 0 &&
         ::tcgetpgrp(relay_[0].from) == child_;
}

bool Streams::take_suspend_request() {
  return std::exchange(suspend_requested_, false);
}

void Streams::relay_keys() {
  std::array<char, 4096> keys;
  const ssize_t got = ::read(0, keys.data(), keys.size());
  if (got <= 0) {
    if (got == 0 || (errno != EINTR && errno != EAGAIN)) input_open_ = false;
    return;
  }
  if (const auto* stop = std::find(keys.data(), keys.data() + got, '\x1a');
      stop != keys.data() + got && child_is_orphaned_foreground()) {
    suspend_requested_ = true;
    return;
  }
  // The child's terminal takes keys as fast as a person types; a paste larger than its queue waits
  // in the kernel.
  std::string_view rest(keys.data(), static_cast<std::size_t>(got));
  for (int attempt = 0; attempt < 200 && !rest.empty(); ++attempt) {
    const ssize_t put = ::write(relay_[0].from, rest.data(), rest.size());
    if (put > 0) rest.remove_prefix(static_cast<std::size_t>(put));
    if (put < 0 && errno == EAGAIN) ::usleep(1000);
    if (put < 0 && errno != EAGAIN && errno != EINTR) return;
  }
}

void Streams::read_from(Relay& relay, int stream, const Seen& seen) {
  std::array<char, 65536> buffer;
  const ssize_t got = ::read(relay.from, buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {  // EOF; a terminal without writers says EIO
    close_fd(relay.from);
    return;
  }
  const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
  relay.tail.append(bytes);
  seen(stream, bytes);
  relay.pending.assign(bytes);
  write_out(relay);
}

void Streams::write_out(Relay& relay) {
  while (!relay.pending.empty()) {
    // Without a descriptor of our own only what cannot block is written: PIPE_BUF after POLLOUT.
    const std::size_t chunk =
        relay.own_to ? relay.pending.size() : std::min<std::size_t>(relay.pending.size(), 4096);
    const ssize_t put = ::write(relay.to, relay.pending.data(), chunk);
    if (put > 0) {
      if (relay.terminal) at_line_start_ = relay.pending[static_cast<std::size_t>(put) - 1] == '\n';
      relay.pending.erase(0, static_cast<std::size_t>(put));
      if (!relay.own_to) return;
      continue;
    }
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) return;
    // The reader is gone: closing our end lets the child see SIGPIPE, as it would without us.
    relay.pending.clear();
    close_fd(relay.from);
  }
}

bool Streams::drain(const Seen& seen) {
  bool open = false;
  for (std::size_t i = 0; i < relay_.size(); ++i) {
    Relay& relay = relay_[i];
    for (int round = 0; round < 64 && relay.from >= 0; ++round) {
      if (!relay.pending.empty()) write_out(relay);
      if (!relay.pending.empty()) break;
      pollfd poll_one{relay.from, POLLIN, 0};
      if (::poll(&poll_one, 1, 0) <= 0) break;
      read_from(relay, i == 1 && !merged_ ? 1 : 2, seen);
    }
    if (relay.from < 0 && !relay.pending.empty()) write_out(relay);
    open = open || relay.from >= 0 || !relay.pending.empty();
  }
  return open;
}

std::string Streams::file_tail(int fd) const {
  const int file = ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  struct stat status {};
  std::string text;
  if (::fstat(file, &status) == 0) {
    // Only what this run wrote: a log that is appended to may end with an older death.
    const std::int64_t begin = std::max<std::int64_t>(
        std::min(file_begin_[static_cast<std::size_t>(fd)], std::int64_t{status.st_size}),
        status.st_size - (64 << 10));
    text.resize(static_cast<std::size_t>(status.st_size - begin));
    const ssize_t got = ::pread(file, text.data(), text.size(), begin);
    text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  }
  ::close(file);
  // The guard writes to the same file; its words are not the program's.
  std::string words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string_view line = std::string_view(text).substr(at, end - at);
    if (!line.starts_with("surefit: ")) words += line;
    at = end;
  }
  return words;
}

std::string Streams::stdout_tail() const {
  return from_file_[1] ? file_tail(1) : relay_[1].tail.text();
}

std::string Streams::stderr_tail() const {
  if (from_file_[2]) return file_tail(2);
  std::string text = relay_[2].tail.text();
  if (text.empty() && interactive_) text = relay_[0].tail.text();
  if (text.empty() && merged_) text = stdout_tail();
  return text;
}

void Streams::say(std::string_view text) {
  std::string out;
  if (!at_line_start_) out = "\n";
  out += text;
  if (out.empty() || out.back() != '\n') out += '\n';
  if (raw_) {  // a raw terminal does not return the carriage
    std::string returned;
    for (const char c : out) {
      if (c == '\n') returned += '\r';
      returned += c;
    }
    out = std::move(returned);
  }
  at_line_start_ = true;
  std::string_view rest = out;
  while (!rest.empty()) {
    const ssize_t put = ::write(2, rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;
    rest.remove_prefix(static_cast<std::size_t>(put));
  }
}

}  // namespace surefit::guard
