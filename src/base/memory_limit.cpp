// SPDX-License-Identifier: Apache-2.0
#include "base/memory_limit.hpp"

#include <algorithm>
#include <charconv>
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

std::uint64_t limit_of(const MemoryLevel& level) {
  return std::min(level.limit, level.high);
}

// "some avg10=12.50 avg60=..." -> 0.125
double stalled_share(std::string_view pressure) {
  constexpr std::string_view kKey = "some avg10=";
  const std::size_t at = pressure.find(kKey);
  if (at == std::string_view::npos) return 0;
  double percent = 0;
  std::from_chars(pressure.data() + at + kKey.size(), pressure.data() + pressure.size(), percent);
  return percent / 100;
}

struct Tightest {
  std::uint64_t bytes = kNoLimit;
  const MemoryLevel* level = nullptr;  // or else
  const char* source = "";
};

Tightest tightest_of(const MemoryFacts& facts) {
  Tightest tightest;
  // What is used beyond a limit (v2 memory.high) is to be given back.
  const auto consider = [&](std::uint64_t limit, std::uint64_t used, const MemoryLevel* level,
                            const char* source) {
    if (limit == kNoLimit) return;
    const std::uint64_t own = limit + facts.resident;
    const std::uint64_t total = own > used ? own - used : 0;
    if (total < tightest.bytes) tightest = {total, level, source};
  };
  for (const MemoryLevel& level : facts.levels) consider(limit_of(level), level.used(), &level, "");
  consider(facts.machine_available, 0, nullptr, "the free memory of the machine");
  consider(facts.address_space, facts.virtual_bytes, nullptr,
           "the limit of address space (ulimit -v)");
  consider(facts.data_limit, facts.data_bytes, nullptr, "the limit of data (ulimit -d)");
  if (tightest.bytes == kNoLimit) return tightest;
  constexpr std::uint64_t kKernel = std::uint64_t{4} << 20;
  tightest.bytes -= std::min(tightest.bytes, tightest.bytes / 100 + kKernel);
  return tightest;
}

}  // namespace

MemoryGauge::MemoryGauge() {
  facts_.levels = CgroupChain(roots_of(::getpid())).memory();
  const auto& levels = facts_.levels;
  const bool limited = std::any_of(levels.begin(), levels.end(), [](const MemoryLevel& level) {
    return limit_of(level) != kNoLimit;
  });
  if (!levels.empty() && !peek(levels.front().path, "memory.pressure").empty()) {
    pressure_directory_ = levels.front().path;
    pressure_file_ = "memory.pressure";
  } else if (!limited) {  // otherwise the machine's stalls are those of other groups
    pressure_directory_ = "/proc/pressure";
    pressure_file_ = "memory";
  }
}

const MemoryFacts& MemoryGauge::read() {
  for (MemoryLevel& level : facts_.levels) read_usage(level);
  const auto available = number_after(peek("/proc", "meminfo"), "MemAvailable:");
  facts_.machine_available = available ? *available * 1024 : kNoLimit;
  const std::string_view status = peek("/proc/self", "status");
  const auto bytes = [&](const char* key) { return number_after(status, key).value_or(0) * 1024; };
  facts_.resident = bytes("VmRSS:");
  facts_.virtual_bytes = bytes("VmSize:");
  facts_.data_bytes = bytes("VmData:");
  facts_.address_space = soft_limit(RLIMIT_AS);
  facts_.data_limit = soft_limit(RLIMIT_DATA);
  if (!pressure_directory_.empty())
    facts_.stalled = stalled_share(peek(pressure_directory_, pressure_file_));
  return facts_;
}

MemoryFacts read_memory_facts() {
  return MemoryGauge().read();
}

std::uint64_t memory_limit_bytes(const MemoryFacts& facts) {
  return tightest_of(facts).bytes;
}

MemoryLimit memory_limit(const MemoryFacts& facts) {
  const Tightest tightest = tightest_of(facts);
  if (tightest.level == nullptr) return {tightest.bytes, tightest.source};
  return {tightest.bytes, fmt::format("the control group {}", tightest.level->path)};
}

}  // namespace surefit
