// SPDX-License-Identifier: Apache-2.0
// A tiny process that sleeps until the guard is gone. After a kill -9 of the guard it gives the
// terminal its settings back, asks the orphaned command to stop, and says so: nothing is left
// behind unnoticed.
#pragma once

#include <string>
#include <sys/types.h>
#include <termios.h>

namespace surefit::guard {

class Janitor {
 public:
  ~Janitor() { stop(); }
  void start(const termios* terminal, pid_t child, bool own_group, const std::string& black_box);
  void stop();
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int pipe_ = -1;
};

}  // namespace surefit::guard
