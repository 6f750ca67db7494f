// SPDX-License-Identifier: Apache-2.0
#include "engine/spill_file.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "base/check.hpp"
#include "base/units.hpp"

namespace surefit {
namespace {

[[noreturn]] void fail(const std::string& directory, const std::string& what, int error) {
  throw SystemError(
      fmt::format(
          "[spill] {} in {}: {}; free some disk space, name another directory with --spill-to, "
          "or raise --memory",
          what, directory, std::strerror(error)),
      error);
}

// Not every file system has O_TMPFILE; a name removed at once does the same.
int open_nameless(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  std::string name = directory + "/.surefit-spill-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

SpillFile::SpillFile(const std::string& directory, std::size_t bytes)
    : directory_(directory), bytes_(bytes) {
  fd_ = open_nameless(directory);
  if (fd_ < 0) fail(directory_, "cannot make a file", errno);
  if (bytes == 0) return;
  const int error = ::posix_fallocate(fd_, 0, static_cast<off_t>(bytes));
  if (error != 0) {
    ::close(fd_);
    fail(directory_, fmt::format("cannot reserve {}", format_bytes(bytes)), error);
  }
}

SpillFile::~SpillFile() {
  if (fd_ >= 0) ::close(fd_);
}

void SpillFile::write(const std::byte* from, std::size_t count, std::size_t offset) const {
  for (std::size_t done = 0; done < count;) {
    const ssize_t got = ::pwrite(fd_, from + done, count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno != EINTR) fail(directory_, "cannot write", errno);
    if (got > 0) done += static_cast<std::size_t>(got);
  }
  // Start the write-back now: dirty pages count against a control group until they are clean.
  ::sync_file_range(fd_, static_cast<off_t>(offset), static_cast<off_t>(count),
                    SYNC_FILE_RANGE_WRITE);
}

void SpillFile::read(std::byte* to, std::size_t count, std::size_t offset) const {
  for (std::size_t done = 0; done < count;) {
    const ssize_t got = ::pread(fd_, to + done, count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno != EINTR) fail(directory_, "cannot read", errno);
    if (got == 0) fail(directory_, "the file ended early", EIO);
    if (got > 0) done += static_cast<std::size_t>(got);
  }
}

}  // namespace surefit
