// SPDX-License-Identifier: Apache-2.0
#include "base/memory_limit.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

namespace surefit {
namespace {

std::uint64_t soft_limit(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0) return kNoLimit;
  return limit.rlim_cur == RLIM_INFINITY ? kNoLimit : static_cast<std::uint64_t>(limit.rlim_cur);
}

}  // namespace

MemoryFacts read_memory_facts() {
  MemoryFacts facts;
  facts.levels = CgroupChain(roots_of(::getpid())).memory();
  const auto kilobytes = [](const std::string& text, const char* key) {
    return number_after(text, key);
  };
  if (const auto free = kilobytes(slurp("/proc/meminfo"), "MemAvailable:"))
    facts.machine_available = *free * 1024;
  const std::string status = slurp("/proc/self/status");
  facts.resident = kilobytes(status, "VmRSS:").value_or(0) * 1024;
  facts.virtual_bytes = kilobytes(status, "VmSize:").value_or(0) * 1024;
  facts.data_bytes = kilobytes(status, "VmData:").value_or(0) * 1024;
  facts.address_space = soft_limit(RLIMIT_AS);
  facts.data_limit = soft_limit(RLIMIT_DATA);
  return facts;
}

MemoryLimit memory_limit(const MemoryFacts& facts) {
  MemoryLimit tightest;
  const auto consider = [&](std::uint64_t left, const std::string& source) {
    if (left == kNoLimit) return;
    const std::uint64_t total = left + facts.resident;
    if (total < tightest.bytes) tightest = {total, source};
  };
  const auto beyond = [](std::uint64_t limit, std::uint64_t used) {
    return limit > used ? limit - used : 0;
  };
  for (const MemoryLevel& level : facts.levels) {
    const std::uint64_t limit = std::min(level.limit, level.high);
    if (limit != kNoLimit)
      consider(beyond(limit, level.used()), fmt::format("the control group {}", level.path));
  }
  consider(facts.machine_available, "the free memory of the machine");
  if (facts.address_space != kNoLimit)
    consider(beyond(facts.address_space, facts.virtual_bytes), "the limit of address space (ulimit -v)");
  if (facts.data_limit != kNoLimit)
    consider(beyond(facts.data_limit, facts.data_bytes), "the limit of data (ulimit -d)");
  if (tightest.bytes == kNoLimit) return tightest;
  constexpr std::uint64_t kKernel = std::uint64_t{4} << 20;
  tightest.bytes -= std::min(tightest.bytes, tightest.bytes / 100 + kKernel);
  return tightest;
}

}  // namespace surefit
