// SPDX-License-Identifier: Apache-2.0
// Small readers of /proc. A process may vanish between any two reads: every reader answers
// "nothing" then.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "base/proc_file.hpp"

namespace surefit::guard {

struct ProcessStat {
  char state = '?';
  pid_t parent = 0;
  pid_t group = 0;
  std::uint64_t major_faults = 0;
  double cpu_seconds = 0;
  int threads = 0;
  std::uint64_t start_ticks = 0;
  std::uint64_t virtual_bytes = 0;
  std::uint64_t rss_bytes = 0;
  std::string name;
};
std::optional<ProcessStat> read_stat(pid_t pid);

struct MemoryDetail {
  std::uint64_t pss = 0, private_dirty = 0, anonymous = 0, swap = 0, shmem = 0;
};
std::optional<MemoryDetail> read_memory_detail(
    pid_t pid);  // takes the process's mmap lock: not too often

std::vector<pid_t> children_of(pid_t pid);
std::vector<pid_t> tree_of(pid_t root);  // root first, then descendants
int count_fds(pid_t pid);                // -1 where not permitted
std::uint64_t io_bytes(pid_t pid);       // read + written through system calls
std::string command_line(pid_t pid);     // arguments joined by blanks

struct ProcessLimits {
  std::uint64_t address_space = kNoLimit, files = kNoLimit, processes = kNoLimit, stack = kNoLimit,
                file_size = kNoLimit, cpu_seconds = kNoLimit, data = kNoLimit;
};
ProcessLimits read_limits(pid_t pid);

// What a process waits for: "sleeping", "reading the terminal", "futex", ... from its system call;
// empty if it runs.
std::string waiting_for(pid_t pid);

// glibc keeps each extra malloc arena in a 64 MiB aligned area; many of them, well filled, are a
// sign of fragmentation.
struct ArenaCount {
  int arenas = 0;
  std::uint64_t resident_bytes = 0;
};
ArenaCount count_arenas(pid_t pid);

}  // namespace surefit::guard
