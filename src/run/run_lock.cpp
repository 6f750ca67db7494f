// SPDX-License-Identifier: Apache-2.0
#include "run/run_lock.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "surefit/error.hpp"

#include "base/env.hpp"

namespace surefit {

RunLock::RunLock(const std::string& directory) {
  Env::posix().make_directories(directory);
  const std::string path = directory + "/lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0)
    throw SystemError(fmt::format("[{}] cannot open: {}", path, std::strerror(errno)), errno);
  // Some network file systems know no locks; there nobody can be kept out.
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(fd_);
    throw ConfigError(fmt::format(
        "[{}] another process trains in this run; wait for it, stop it, or choose another run",
        directory));
  }
}

RunLock::~RunLock() {
  ::close(fd_);
}

}  // namespace surefit
