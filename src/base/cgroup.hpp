// SPDX-License-Identifier: Apache-2.0
// Control groups, v1, v2 or hybrid: the chain of ancestors of a process, its limits and counters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/proc_file.hpp"

namespace surefit {

// Where to look; tests point it at trees of their own.
struct CgroupRoots {
  std::string process_cgroup;  // text of /proc/PID/cgroup
  std::string mountinfo;       // text of /proc/self/mountinfo
};
CgroupRoots roots_of(pid_t pid);

struct MemoryLevel {
  std::string path;  // directory in the file system
  bool v2 = false;
  std::uint64_t limit = kNoLimit;
  std::uint64_t high = kNoLimit;  // v2 memory.high
  std::uint64_t usage = 0;
  std::uint64_t peak = 0;            // since the group was made
  std::uint64_t reclaimable = 0;     // page cache without shared memory; v2: and slabs
  std::optional<std::uint64_t> oom;  // v2: times this group's own limit was hit with nothing left
  std::optional<std::uint64_t> oom_kill;        // kills of members by any OOM killer
  std::optional<std::uint64_t> oom_group_kill;  // v2, Linux 5.17
  std::optional<std::uint64_t> failures;        // v1 failcnt, v2 events max

  std::uint64_t used() const { return usage > reclaimable ? usage - reclaimable : 0; }
};

// Limits and usage of `path` anew; allocates nothing.
void read_usage(MemoryLevel& level);

struct PidsLevel {
  std::string path;
  std::uint64_t current = 0, limit = kNoLimit;
  std::uint64_t refused = 0;  // pids.events max
};

struct CpuLevel {
  std::string path;
  double quota_cores = 0;  // 0 = none
  std::uint64_t periods = 0, throttled = 0;
};

class CgroupChain {
 public:
  CgroupChain() = default;
  explicit CgroupChain(const CgroupRoots& roots);

  std::vector<MemoryLevel> memory() const;  // own group first, then its ancestors
  std::vector<PidsLevel> pids() const;
  std::vector<CpuLevel> cpu() const;
  const std::string& memory_directory() const { return memory_.directory; }
  bool memory_is_v2() const { return memory_.v2; }
  // Pretends that the process sits in `directory`, which the guard made below memory_directory().
  void descend(const std::string& directory) { memory_.directory = directory; }

 private:
  struct Place {
    std::string directory, top;  // top = mount point
    bool v2 = false;
  };
  static Place locate(const CgroupRoots& roots, const std::string& controller);
  static std::vector<std::string> upward(const Place& place);
  Place memory_, pids_, cpu_;
};

// min over the chain of limit - used: what is left before somebody is killed. kNoLimit without
// limits.
std::uint64_t headroom(const std::vector<MemoryLevel>& levels);

}  // namespace surefit
