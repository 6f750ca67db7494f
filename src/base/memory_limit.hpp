// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "base/cgroup.hpp"

namespace surefit {

// How many bytes the whole process may grow to before something ends it, and what sets that limit.
struct MemoryLimit {
  std::uint64_t bytes = kNoLimit;
  std::string source;  // "the control group /sys/fs/cgroup/...", "free memory of the machine"
};

// What the limits are computed from; tests make their own.
struct MemoryFacts {
  std::vector<MemoryLevel> levels;             // of control groups, the own one first
  std::uint64_t machine_available = kNoLimit;  // MemAvailable
  std::uint64_t resident = 0;                  // of this process
  std::uint64_t virtual_bytes = 0;
  std::uint64_t data_bytes = 0;            // VmData
  std::uint64_t address_space = kNoLimit;  // RLIMIT_AS
  std::uint64_t data_limit = kNoLimit;     // RLIMIT_DATA
  double stalled = 0;  // share of the last 10 s in which somebody of the group waited for memory
};

// Reads the facts of this process again and again, for the training loop: read() allocates nothing.
class MemoryGauge {
 public:
  MemoryGauge();
  const MemoryFacts& read();

 private:
  MemoryFacts facts_;
  std::string pressure_directory_;  // empty: nobody tells
  const char* pressure_file_ = "";
};
MemoryFacts read_memory_facts();

// The tightest of all limits, less a hundredth and 4 MiB for what the kernel keeps on our behalf
// (page tables, sockets, the files of a run). What cannot be read does not limit.
MemoryLimit memory_limit(const MemoryFacts& facts);
// The bytes alone; allocates nothing.
std::uint64_t memory_limit_bytes(const MemoryFacts& facts);

}  // namespace surefit
