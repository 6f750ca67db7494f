// SPDX-License-Identifier: Apache-2.0
#include "guard/machine.hpp"

#include <algorithm>
#include <cstdlib>
#include <dirent.h>
#include <fmt/format.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

namespace surefit::guard {

MachineMemory read_machine_memory() {
  const std::string text = slurp("/proc/meminfo");
  const auto bytes = [&](const char* key) { return number_after(text, key).value_or(0) * 1024; };
  return {bytes("MemTotal:"), bytes("MemAvailable:"), bytes("SwapTotal:"),
          bytes("SwapFree:"), bytes("Committed_AS:"), bytes("CommitLimit:")};
}

VmCounters read_vm_counters() {
  const std::string text = slurp("/proc/vmstat");
  return {number_after(text, "oom_kill "),
          number_after(text, "pswpin ").value_or(0) + number_after(text, "pswpout ").value_or(0)};
}

std::optional<Pressure> read_pressure(const char* resource) {
  const std::string text = slurp(std::string("/proc/pressure/") + resource);
  if (text.empty()) return std::nullopt;
  const auto average = [&](const char* key) {
    const std::size_t at = text.find(key);
    return at == std::string::npos
               ? 0.0
               : std::strtod(text.c_str() + at + std::char_traits<char>::length(key), nullptr);
  };
  return Pressure{average("some avg10="), average("full avg10=")};
}

std::string boot_id() {
  std::string id = slurp("/proc/sys/kernel/random/boot_id");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

namespace {
std::string cpuinfo_line(const char* key) {
  const std::string text = slurp("/proc/cpuinfo");
  const std::size_t at = text.find(key);
  if (at == std::string::npos) return {};
  const std::size_t colon = text.find(':', at);
  if (colon == std::string::npos) return {};
  const std::size_t begin = std::min(text.size(), colon + 2);
  return text.substr(begin, text.find('\n', begin) - begin);
}
}  // namespace

std::string cpu_flags() {
  return fmt::format(" {} ", cpuinfo_line("\nflags"));
}
std::string cpu_model() {
  return cpuinfo_line("\nmodel name");
}

std::optional<Heat> read_heat() {
  std::optional<Heat> heat;
  const auto look = [&](const std::string& value_file, const std::string& trip_file,
                        const std::string& name) {
    const auto value = slurp_number(value_file);
    if (!value || *value == kNoLimit || *value > 200000) return;
    const double celsius = static_cast<double>(*value) / 1000;
    if (heat && heat->hottest >= celsius) return;
    const auto trip = slurp_number(trip_file);
    heat = Heat{celsius, trip && *trip < 200000 ? static_cast<double>(*trip) / 1000 : 0, name};
  };
  for (int zone = 0; zone < 16; ++zone) {
    const std::string base = fmt::format("/sys/class/thermal/thermal_zone{}", zone);
    look(base + "/temp", base + "/trip_point_0_temp", fmt::format("thermal_zone{}", zone));
  }
  for (int chip = 0; chip < 8; ++chip) {
    for (int input = 1; input <= 4; ++input) {
      const std::string base = fmt::format("/sys/class/hwmon/hwmon{}/temp{}", chip, input);
      look(base + "_input", base + "_crit", fmt::format("hwmon{}/temp{}", chip, input));
    }
  }
  return heat;
}

bool read_disk(DiskState& disk) {
  struct statfs kind {};
  if (::statfs(disk.path.c_str(), &kind) != 0) return false;
  constexpr long kNfs = 0x6969, kSmb = 0x517B, kCifs = 0xFF534D42, kSmb2 = 0xFE534D42,
                 kFuse = 0x65735546;
  for (const long network : {kNfs, kSmb, kCifs, kSmb2, kFuse}) {
    if (kind.f_type == network && disk.total > 0)
      return false;  // asked once at the start, then never again
  }
  struct statvfs status {};
  if (::statvfs(disk.path.c_str(), &status) != 0) return false;
  disk.total = std::uint64_t{status.f_blocks} * status.f_frsize;
  disk.free = std::uint64_t{status.f_bavail} * status.f_frsize;
  disk.inodes = status.f_files;
  disk.free_inodes = status.f_favail;
  if (disk.least_free == ~std::uint64_t{0}) disk.first_free = disk.free;
  disk.least_free = std::min(disk.least_free, disk.free);
  return true;
}

}  // namespace surefit::guard
