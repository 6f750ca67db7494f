// SPDX-License-Identifier: Apache-2.0
// The child's terminal. What the child sees is what it would see without the guard:
//  - stdin and stdout are terminals: a pseudo-terminal of its own, keys and output relayed, so that
//  editors, prompts,
//    progress bars and Ctrl-C work;
//  - otherwise stdin is inherited; an output that is a terminal becomes an output-only
//  pseudo-terminal, a file is
//    inherited (its end is read after the death), anything else is a relayed pipe.
// The last 64 KiB of each are kept.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <poll.h>
#include <string>
#include <string_view>
#include <termios.h>
#include <vector>

namespace surefit::guard {

class Tail {
 public:
  void append(std::string_view bytes);
  std::string text() const;

 private:
  static constexpr std::size_t kBytes = 64 << 10;
  std::vector<char> ring_;
  std::uint64_t written_ = 0;
};

class Streams {
 public:
  using Seen =
      std::function<void(int stream, std::string_view bytes)>;  // 1 = stdout, 2 = stderr or both

  Streams();
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  void open();          // before the fork
  void become_child();  // in the child: session, controlling terminal, descriptors
  void parent_after_fork(pid_t child);
  void close();  // after the attempt; the terminal gets its settings back

  bool interactive() const { return interactive_; }
  bool shares_group() const {
    return shares_group_;
  }  // the child must stay in the guard's process group

  void add_polls(std::vector<pollfd>& polls) const;
  void handle(const std::vector<pollfd>& polls, const Seen& seen);
  bool drain(const Seen& seen);  // reads what is there; true while a writer is left

  void window_changed();
  // Ctrl-Z was typed for the child. In a session of its own it is an orphaned group, which the
  // kernel does not stop.
  bool take_suspend_request();
  void suspend();  // terminal back to the shell's settings
  void resume();

  std::string stdout_tail() const;
  std::string stderr_tail() const;
  const termios* saved_terminal() const { return raw_ ? &saved_ : nullptr; }

  // The guard's own words, on stderr, on a line of their own.
  void say(std::string_view text);

 private:
  struct Relay {
    int from = -1;       // our end
    int child_end = -1;  // the child's end until the fork
    int to = -1;         // where it goes, opened anew so that O_NONBLOCK stays ours
    bool own_to = false;
    bool terminal = false;
    std::string pending;  // read, not yet written
    Tail tail;
  };
  void open_output(int fd);
  void read_from(Relay& relay, int stream, const Seen& seen);
  void write_out(Relay& relay);
  void relay_keys();
  bool child_is_orphaned_foreground() const;
  void enter_raw();
  std::string file_tail(int fd) const;

  bool interactive_ = false, shares_group_ = false, raw_ = false, foreground_ = false,
       input_open_ = false;
  termios saved_{};
  std::array<Relay, 3> relay_;       // 0: the interactive terminal's master; 1, 2: outputs
  std::array<bool, 3> from_file_{};  // inherited regular file
  std::array<std::int64_t, 3> file_begin_{};
  bool merged_ = false;  // stdout and stderr are one
  bool at_line_start_ = true;
  bool suspend_requested_ = false;
  pid_t child_ = -1;
};

}  // namespace surefit::guard
