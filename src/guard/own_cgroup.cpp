// SPDX-License-Identifier: Apache-2.0
#include "guard/own_cgroup.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace surefit::guard {
namespace {

bool write_text(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  ::close(fd);
  errno = error;
  return done;
}

// A guard that was killed could not remove its group; an empty one of a dead guard is ours to clear
// away.
void remove_stale_groups(const std::string& above) {
  DIR* directory = ::opendir(above.c_str());
  if (directory == nullptr) return;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with("surefit-")) continue;
    const pid_t guard = std::atoi(entry->d_name + 8);
    if (guard > 0 && ::kill(guard, 0) != 0 && errno == ESRCH)
      ::rmdir((above + "/" + entry->d_name).c_str());
  }
  ::closedir(directory);
}
}  // namespace

bool OwnCgroup::create(const CgroupChain& parent, const std::string& name, std::uint64_t limit) {
  const std::string& above = parent.memory_directory();
  if (above.empty()) {
    why_ = "no memory controller";
    return false;
  }
  remove_stale_groups(above);
  v2_ = parent.memory_is_v2();
  // v2 hands controllers down only from groups without processes of their own (or the root); a
  // refusal is normal.
  if (v2_) write_text(above + "/cgroup.subtree_control", "+memory");
  const std::string path = above + "/" + name;
  if (::mkdir(path.c_str(), 0755) != 0) {
    why_ = fmt::format("cannot make {}: {}", path, std::strerror(errno));
    return false;
  }
  path_ = path;
  const bool usable =
      ::access((path + (v2_ ? "/memory.max" : "/memory.limit_in_bytes")).c_str(), F_OK) == 0 &&
      ::access(procs_file().c_str(), W_OK) == 0;
  if (!usable) {
    why_ = fmt::format("{} hands no memory controller down", above);
    remove();
    return false;
  }
  if (limit != kNoLimit) set_limit(limit);
  return true;
}

void OwnCgroup::set_limit(std::uint64_t limit) {
  if (path_.empty()) return;
  const std::string value = fmt::format("{}", limit);
  if (v2_) {
    write_text(path_ + "/memory.max", value);
    write_text(path_ + "/memory.swap.max", "0");  // a limit that swaps instead is no limit
  } else {
    write_text(path_ + "/memory.limit_in_bytes", value);
    write_text(path_ + "/memory.memsw.limit_in_bytes", value);
  }
}

std::vector<pid_t> OwnCgroup::members() const {
  std::vector<pid_t> pids;
  if (path_.empty()) return pids;
  const std::string text = slurp(procs_file());
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    pids.push_back(static_cast<pid_t>(std::atoi(text.c_str() + at)));
    if (text.find('\n', at) == std::string::npos) break;
  }
  return pids;
}

void OwnCgroup::remove() {
  if (path_.empty()) return;
  // Freed pages of the dead are charged for a moment; a group that cannot go yet is retried
  // briefly.
  for (int attempt = 0; attempt < 20 && ::rmdir(path_.c_str()) != 0 && errno == EBUSY; ++attempt)
    ::usleep(5000);
  path_.clear();
}

}  // namespace surefit::guard
