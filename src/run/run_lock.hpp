// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace surefit {

// One trainer per run directory: a lock that the system takes back when its holder dies, however it dies.
class RunLock {
 public:
  explicit RunLock(const std::string& directory);  // makes the directory; ConfigError when another holds it
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace surefit
