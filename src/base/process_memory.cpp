// SPDX-License-Identifier: Apache-2.0
#include "base/process_memory.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace surefit {

ProcessMemory read_process_memory() {
  // Raw reads into a stack buffer: this runs inside the training loop, which must not allocate.
  ProcessMemory memory;
  const int fd = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return memory;
  std::array<char, 4096> text{};
  const ssize_t got = ::read(fd, text.data(), text.size() - 1);
  ::close(fd);
  if (got <= 0) return memory;
  const auto field = [&](const char* name) -> std::uint64_t {
    const char* at = std::strstr(text.data(), name);
    return at == nullptr ? 0 : std::strtoull(at + std::strlen(name), nullptr, 10) * 1024;
  };
  memory.resident_bytes = field("VmRSS:");
  memory.peak_bytes = field("VmHWM:");
  return memory;
}

}  // namespace surefit
