// SPDX-License-Identifier: Apache-2.0
#include "base/cgroup.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace surefit {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + 1);
  }
  return parts;
}

bool contains_word(std::string_view list, std::string_view word, char separator) {
  const auto parts = split(list, separator);
  return std::find(parts.begin(), parts.end(), word) != parts.end();
}

bool is_directory(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

struct Mount {
  std::string root, point;
};

// The mount of a v1 controller, or of the v2 tree for controller "".
std::optional<Mount> find_mount(const std::string& mountinfo, std::string_view controller) {
  for (const std::string_view line : split(mountinfo, '\n')) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto fields = split(line.substr(0, dash), ' ');
    const auto tail = split(line.substr(dash + 3), ' ');
    if (fields.size() < 5 || tail.size() < 3) continue;
    const bool match = controller.empty()
                           ? tail[0] == "cgroup2"
                           : tail[0] == "cgroup" && contains_word(tail[2], controller, ',');
    if (match) return Mount{std::string(fields[3]), std::string(fields[4])};
  }
  return std::nullopt;
}

// The path of the process in a v1 controller's hierarchy, or in v2 for controller "".
std::optional<std::string> find_path(const std::string& process_cgroup,
                                     std::string_view controller) {
  for (const std::string_view line : split(process_cgroup, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool match =
        controller.empty() ? line.starts_with("0::") : contains_word(controllers, controller, ',');
    if (match) return std::string(line.substr(second + 1));
  }
  return std::nullopt;
}

void read_events(MemoryLevel& level) {
  const std::string& path = level.path;
  if (!level.v2) {
    level.oom_kill = number_after(peek(path, "memory.oom_control"), "oom_kill ");
    // With swap accounting the limit of memory + swap is asked first and counts the refusal
    // instead.
    level.failures = peek_number(path, "memory.failcnt");
    if (level.failures) *level.failures += peek_number(path, "memory.memsw.failcnt").value_or(0);
    return;
  }
  // Local events say whose limit it was; older kernels have only the hierarchical file.
  std::string_view events = peek(path, "memory.events.local");
  if (events.empty()) events = peek(path, "memory.events");
  level.oom = number_after(events, "oom ");
  level.oom_kill = number_after(events, "oom_kill ");
  level.oom_group_kill = number_after(events, "oom_group_kill ");
  level.failures = number_after(events, "max ");
}

}  // namespace

CgroupRoots roots_of(pid_t pid) {
  return {slurp(fmt::format("/proc/{}/cgroup", pid)), slurp("/proc/self/mountinfo")};
}

void read_usage(MemoryLevel& level) {
  const std::string& path = level.path;
  level.limit =
      peek_number(path, level.v2 ? "memory.max" : "memory.limit_in_bytes").value_or(kNoLimit);
  level.high = level.v2 ? peek_number(path, "memory.high").value_or(kNoLimit) : kNoLimit;
  level.usage =
      peek_number(path, level.v2 ? "memory.current" : "memory.usage_in_bytes").value_or(0);
  level.peak =
      peek_number(path, level.v2 ? "memory.peak" : "memory.max_usage_in_bytes").value_or(0);
  const std::string_view stat = peek(path, "memory.stat");
  const auto number = [&](const char* key) { return number_after(stat, key).value_or(0); };
  const std::uint64_t file = number(level.v2 ? "file " : "total_cache ");
  level.reclaimable = file - std::min(file, number(level.v2 ? "shmem " : "total_shmem "));
  if (level.v2) level.reclaimable += number("slab_reclaimable ");
}

CgroupChain::Place CgroupChain::locate(const CgroupRoots& roots, const std::string& controller) {
  Place place;
  auto path = find_path(roots.process_cgroup, controller);
  auto mount = find_mount(roots.mountinfo, controller);
  if (!path || !mount) {  // not a v1 controller here: the v2 tree, if it has this controller
    path = find_path(roots.process_cgroup, "");
    mount = find_mount(roots.mountinfo, "");
    if (!path || !mount) return place;
    if (!contains_word(slurp(mount->point + "/cgroup.controllers").substr(0, 4096), controller,
                       ' ') &&
        slurp(mount->point + "/cgroup.controllers").find(controller) == std::string::npos) {
      return place;
    }
    place.v2 = true;
  }
  place.top = mount->point;
  // In a container the path may be outside of what is mounted; then the mount point itself is our
  // group.
  std::string below = *path;
  if (mount->root != "/" && below.starts_with(mount->root)) below.erase(0, mount->root.size());
  place.directory = below == "/" ? mount->point : mount->point + below;
  while (place.directory.size() > place.top.size() && !is_directory(place.directory)) {
    place.directory.erase(place.directory.rfind('/'));
  }
  return place;
}

CgroupChain::CgroupChain(const CgroupRoots& roots)
    : memory_(locate(roots, "memory")), pids_(locate(roots, "pids")), cpu_(locate(roots, "cpu")) {}

std::vector<std::string> CgroupChain::upward(const Place& place) {
  std::vector<std::string> chain;
  std::string directory = place.directory;
  while (!directory.empty() && directory.size() >= place.top.size()) {
    chain.push_back(directory);
    const std::size_t slash = directory.rfind('/');
    if (slash == std::string::npos || directory == place.top) break;
    directory.erase(slash);
  }
  return chain;
}

std::vector<MemoryLevel> CgroupChain::memory() const {
  std::vector<MemoryLevel> levels;
  for (const std::string& path : upward(memory_)) {
    MemoryLevel& level = levels.emplace_back();
    level.path = path;
    level.v2 = memory_.v2;
    read_usage(level);
    read_events(level);
  }
  return levels;
}

std::vector<PidsLevel> CgroupChain::pids() const {
  std::vector<PidsLevel> levels;
  for (const std::string& path : upward(pids_)) {
    const auto current = slurp_number(path + "/pids.current");
    if (!current) continue;
    levels.push_back({path, *current, slurp_number(path + "/pids.max").value_or(kNoLimit),
                      number_after(slurp(path + "/pids.events"), "max ").value_or(0)});
  }
  return levels;
}

std::vector<CpuLevel> CgroupChain::cpu() const {
  std::vector<CpuLevel> levels;
  for (const std::string& path : upward(cpu_)) {
    CpuLevel level{.path = path};
    if (cpu_.v2) {
      const std::string text = slurp(path + "/cpu.max");  // "200000 100000" or "max 100000"
      const auto words = split(text, ' ');
      if (words.size() == 2 && words[0] != "max") {
        level.quota_cores =
            std::strtod(words[0].data(), nullptr) / std::strtod(words[1].data(), nullptr);
      }
    } else {
      const std::uint64_t quota = slurp_number(path + "/cpu.cfs_quota_us").value_or(kNoLimit);
      const std::uint64_t period = slurp_number(path + "/cpu.cfs_period_us").value_or(0);
      if (quota != kNoLimit && period > 0)
        level.quota_cores = static_cast<double>(quota) / static_cast<double>(period);
    }
    const std::string stat = slurp(path + "/cpu.stat");
    level.periods = number_after(stat, "nr_periods ").value_or(0);
    level.throttled = number_after(stat, "nr_throttled ").value_or(0);
    levels.push_back(level);
  }
  return levels;
}

std::uint64_t headroom(const std::vector<MemoryLevel>& levels) {
  std::uint64_t left = kNoLimit;
  for (const MemoryLevel& level : levels) {
    if (level.limit == kNoLimit) continue;
    left = std::min(left, level.limit > level.used() ? level.limit - level.used() : 0);
  }
  return left;
}

}  // namespace surefit
