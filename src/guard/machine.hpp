// SPDX-License-Identifier: Apache-2.0
// The machine as a whole: memory, swap, pressure, disks, heat, boot.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "guard/evidence.hpp"

namespace surefit::guard {

struct MachineMemory {
  std::uint64_t total = 0, available = 0, swap_total = 0, swap_free = 0, committed = 0,
                commit_limit = 0;
};
MachineMemory read_machine_memory();

struct VmCounters {
  std::optional<std::uint64_t> oom_kill;
  std::uint64_t swapped_pages = 0;  // in + out
};
VmCounters read_vm_counters();

std::optional<Pressure> read_pressure(const char* resource);  // "memory", "io", "cpu"
std::string boot_id();
std::string cpu_flags();
std::string cpu_model();

struct Heat {
  double hottest = 0, trip = 0;  // Celsius; trip 0 = unknown
  std::string sensor;
};
std::optional<Heat> read_heat();  // nothing = no sensor, which is not "cool"

// Fills total, free, inodes. False where the path is gone or sits on a network file system, where
// the answer may hang.
bool read_disk(DiskState& disk);

}  // namespace surefit::guard
