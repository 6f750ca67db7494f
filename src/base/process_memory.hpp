// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace surefit {

// What the kernel charges to this process, from /proc/self/status; zeros where it cannot be read.
struct ProcessMemory {
  std::uint64_t resident_bytes = 0;  // VmRSS
  std::uint64_t peak_bytes = 0;      // VmHWM
};
ProcessMemory read_process_memory();

}  // namespace surefit
