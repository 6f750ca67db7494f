// SPDX-License-Identifier: Apache-2.0
#include "guard/sampler.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/cores.hpp"

namespace surefit::guard {

Sampler::Sampler(SamplerOptions options) : options_(std::move(options)) {
  start_ = busy_at_ = monotonic_seconds();
  chain_ = CgroupChain(roots_of(options_.whole_guard ? ::getpid() : options_.root));
  if (!options_.own_group.empty()) chain_.descend(options_.own_group);
  if (options_.root != 0) attach(options_.root);
  evidence_.disks = options_.disks;
  evidence_.kernel_log_readable = kernel_log_.readable();
  evidence_.online_cores = usable_cores();
  evidence_.cpu_flags = cpu_flags();
  evidence_.overcommit =
      static_cast<int>(slurp_number("/proc/sys/vm/overcommit_memory").value_or(0));
  begin_oom_kill_ = read_vm_counters().oom_kill;
  read_groups(true);
  for (const PidsLevel& level : chain_.pids()) begin_refused_[level.path] = level.refused;
  for (const CpuLevel& level : chain_.cpu()) {
    if (level.quota_cores <= 0) continue;
    if (evidence_.quota_cores == 0 || level.quota_cores < evidence_.quota_cores) {
      evidence_.quota_cores = level.quota_cores;
      begin_periods_ = level.periods;
      begin_throttled_ = level.throttled;
    }
  }
}

void Sampler::attach(pid_t root) {
  options_.root = root;
  known_.insert(root);
  tree_ = {root};
  start_ = busy_at_ = monotonic_seconds();
}

double Sampler::elapsed() const {
  return monotonic_seconds() - start_;
}
double Sampler::idle_seconds() const {
  return monotonic_seconds() - busy_at_;
}

void Sampler::tick() {
  const double now = monotonic_seconds() - start_;
  sample_memory(now);
  if (now >= next_second_) {
    sample_second(now);
    next_second_ = now + 1;
  }
  if (now >= next_slow_) {
    sample_slow(now);
    next_slow_ = now + 3;
  }
}

void Sampler::resumed() {
  busy_at_ = monotonic_seconds();
}

void Sampler::find_tree(double now) {
  // The own group lists its members in one read; a walk asks every thread of every process for its
  // children.
  if (!options_.own_group.empty()) {
    const std::string text = slurp(options_.own_group + "/cgroup.procs");
    tree_ = {options_.root};
    const char* at = text.c_str();
    for (char* end = nullptr; *at != '\0'; at = *end == '\n' ? end + 1 : end) {
      const auto pid = static_cast<pid_t>(std::strtol(at, &end, 10));
      if (end == at) break;
      if (pid != options_.root) tree_.push_back(pid);
    }
    return;
  }
  if (now < next_walk_) return;
  next_walk_ = now + 1;
  tree_ = tree_of(options_.whole_guard ? ::getpid() : options_.root);
  if (options_.whole_guard) tree_.erase(tree_.begin());
}

void Sampler::sample_memory(double now) {
  find_tree(now);
  std::uint64_t rss = 0, workers = 0;
  int threads = 0, alive = 0;
  for (const pid_t pid : tree_) {
    const auto stat = read_stat(pid);
    if (!stat || stat->state == 'Z' || stat->name == "surefit-janitor") continue;
    ++alive;
    known_.insert(pid);
    rss += stat->rss_bytes;
    if (pid != options_.root) workers += stat->rss_bytes;
    threads += stat->threads;
    evidence_.virtual_peak = std::max(evidence_.virtual_peak, stat->virtual_bytes);
    if (stat->rss_bytes > evidence_.largest_rss) {
      evidence_.largest_rss = stat->rss_bytes;
      evidence_.largest_name = stat->name;
    }
  }
  if (alive == 0) return;
  // Shared memory fills fast and is empty again after the death; local and cheap, so looked at
  // every time.
  for (DiskState& disk : evidence_.disks) {
    if (disk.role == "/dev/shm") read_disk(disk);
  }
  if (alive < static_cast<int>(last_.processes))
    evidence_.processes_lost += static_cast<int>(last_.processes) - alive;
  evidence_.processes_peak = std::max(evidence_.processes_peak, alive);
  evidence_.threads_peak = std::max(evidence_.threads_peak, threads);
  evidence_.rss_last = rss;
  evidence_.rss_peak = std::max(evidence_.rss_peak, rss);
  if (first_workers_ == 0) first_workers_ = workers;
  if (workers > 0)
    evidence_.workers_grown_bytes =
        static_cast<double>(workers) - static_cast<double>(first_workers_);

  // The own group counts what /proc does not: kernel memory and tmpfs pages.
  std::uint64_t used = rss;
  if (!options_.own_group.empty()) {
    const auto usage =
        slurp_number(options_.own_group +
                     (chain_.memory_is_v2() ? "/memory.current" : "/memory.usage_in_bytes"));
    if (usage) used = *usage > reclaimable_ ? *usage - reclaimable_ : 0;
  }
  evidence_.used_last = used;
  memory_.add(now, used);
  last_.time = wall_seconds();
  last_.rss_bytes = rss;
  last_.used_bytes = used;
  last_.limit_bytes = evidence_.limit == kNoLimit ? 0 : evidence_.limit;
  last_.processes = static_cast<std::uint32_t>(alive);
  last_.threads = static_cast<std::uint32_t>(threads);
}

void Sampler::read_groups(bool begin) {
  const std::vector<MemoryLevel> levels = chain_.memory();
  headroom_ = headroom(levels);
  evidence_.limit = kNoLimit;
  std::uint64_t least = kNoLimit;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const MemoryLevel& level = levels[i];
    if (begin)
      evidence_.groups.push_back({level, level, i == 0 && level.path == options_.own_group});
    if (i < evidence_.groups.size() && evidence_.groups[i].end.path == level.path)
      evidence_.groups[i].end = level;
    if (i == 0 && level.path == options_.own_group) reclaimable_ = level.reclaimable;
    const std::uint64_t left = level.limit > level.used() ? level.limit - level.used() : 0;
    if (level.limit != kNoLimit && (left < least || evidence_.limit == kNoLimit)) {
      least = left;
      evidence_.limit = level.limit;
      evidence_.limit_source = level.path;
    }
  }
}

void Sampler::sample_second(double now) {
  read_groups(false);
  const MachineMemory machine = read_machine_memory();
  evidence_.mem_total = machine.total;
  evidence_.mem_available = machine.available;
  evidence_.swap_total = machine.swap_total;
  evidence_.swap_used = machine.swap_total - machine.swap_free;
  evidence_.committed = machine.committed;
  evidence_.commit_limit = machine.commit_limit;
  headroom_ = std::min(headroom_, machine.available);

  double cpu = 0;
  std::uint64_t io = 0, faults = 0;
  int fds = 0;
  for (const pid_t pid : tree_) {
    if (const auto stat = read_stat(pid)) {
      cpu += stat->cpu_seconds;
      faults += stat->major_faults;
    }
    io += io_bytes(pid);
    fds = std::max(fds, count_fds(pid));
  }
  evidence_.fds_peak = std::max(evidence_.fds_peak, fds);
  last_.fds = static_cast<std::uint32_t>(std::max(fds, 0));
  const ProcessLimits limits = read_limits(options_.root);
  if (!tree_.empty()) evidence_.limits = limits;
  for (DiskState& disk : evidence_.disks) read_disk(disk);
  sample_progress(now, cpu, io);

  const double seconds = now - last_second_;
  const VmCounters counters = read_vm_counters();
  if (last_second_ > 0 && seconds > 0.2) {
    evidence_.swap_pages_per_second =
        std::max(evidence_.swap_pages_per_second,
                 static_cast<double>(counters.swapped_pages - swapped_) / seconds);
    if (faults >= major_faults_)
      evidence_.major_faults_per_second = static_cast<double>(faults - major_faults_) / seconds;
  }
  swapped_ = counters.swapped_pages;
  major_faults_ = faults;
  last_second_ = now;
  read_kernel_log();
}

void Sampler::sample_progress(double now, double cpu, std::uint64_t io) {
  const double seconds = now - last_second_;
  if (seconds > 0.2) last_.cpu = static_cast<float>(std::max(0.0, cpu - last_cpu_) / seconds);
  double beat = last_beat_;
  if (!options_.heartbeat_path.empty()) {
    if (auto heartbeat = read_heartbeat(options_.heartbeat_path);
        heartbeat && known_.contains(heartbeat->pid)) {
      beat = heartbeat->monotonic_s;
      last_.step = heartbeat->step;
      evidence_.heartbeat = std::move(heartbeat);
    }
  }
  // One hundredth of a core: an idle interpreter's timers stay below it.
  const bool busy = cpu - last_cpu_ > 0.01 * std::max(seconds, 0.25) || io != last_io_ ||
                    output_bytes_ != last_output_ || beat != last_beat_;
  if (busy) {
    busy_at_ = monotonic_seconds();
    evidence_.waiting.clear();
  } else {
    evidence_.waiting = waiting_for(options_.root);
  }
  evidence_.idle_s = idle_seconds();
  last_cpu_ = cpu;
  last_io_ = io;
  last_output_ = output_bytes_;
  last_beat_ = beat;
}

void Sampler::sample_slow(double) {
  std::uint64_t pss = 0;
  for (const pid_t pid : tree_) {
    if (const auto detail = read_memory_detail(pid)) pss += detail->pss;
  }
  evidence_.pss_last = last_.pss_bytes = pss;
  evidence_.memory_pressure = read_pressure("memory");
  evidence_.io_pressure = read_pressure("io");
  if (evidence_.memory_pressure)
    evidence_.memory_full_peak =
        std::max(evidence_.memory_full_peak, evidence_.memory_pressure->full10);
  if (const auto heat = read_heat()) {
    evidence_.temperature = heat->hottest;
    evidence_.temperature_trip = heat->trip;
  }
  // Walking smaps of a large process takes its lock; only when there is something to find.
  if (evidence_.threads_peak > 2 * evidence_.online_cores && evidence_.rss_last > (256u << 20))
    evidence_.arenas = count_arenas(options_.root);
  for (const CpuLevel& level : chain_.cpu()) {
    if (level.quota_cores != evidence_.quota_cores || level.quota_cores <= 0) continue;
    const std::uint64_t periods = level.periods - begin_periods_;
    if (periods > 20)
      evidence_.throttled_share =
          static_cast<double>(level.throttled - begin_throttled_) / static_cast<double>(periods);
  }
}

void Sampler::read_kernel_log() {
  kernel_log_.collect([&](KernelRecord&& record) {
    using Kind = KernelRecord::Kind;
    if (record.kind == Kind::kOther) {  // the victim's group: ours even where we never saw its pid
      const std::size_t slash = options_.own_group.rfind('/');
      if (slash != std::string::npos &&
          record.text.find(options_.own_group.substr(slash)) != std::string::npos)
        known_.insert(record.pid);
      return;
    }
    const bool everybody = record.kind == Kind::kMemoryFailure || record.kind == Kind::kXid;
    auto& list = everybody || known_.contains(record.pid) ? evidence_.kernel : unclear_;
    if (list.size() < 32) list.push_back(std::move(record));
  });
}

std::optional<Forecast> Sampler::forecast_now() const {
  return forecast(memory_.points(), headroom_);
}

std::uint64_t Sampler::oom_kills_so_far() const {
  if (evidence_.groups.empty() || !evidence_.groups.front().own) return 0;
  return evidence_.groups.front().oom_kills().value_or(0);
}

void Sampler::finish() {
  read_groups(false);
  // A zombie still tells its limits: a script that lowers its own just before it dies is seen here.
  const ProcessLimits limits = read_limits(options_.root);
  if (limits.files != kNoLimit || limits.stack != kNoLimit) evidence_.limits = limits;
  if (const auto stat = read_stat(options_.root)) evidence_.cpu_seconds = stat->cpu_seconds;
  for (DiskState& disk : evidence_.disks) read_disk(disk);
  const auto oom_kill = read_vm_counters().oom_kill;
  if (oom_kill && begin_oom_kill_) evidence_.host_oom_kills = *oom_kill - *begin_oom_kill_;
  for (const PidsLevel& level : chain_.pids()) {
    PidsLevel change = level;
    const auto before = begin_refused_.find(level.path);
    change.refused -= before == begin_refused_.end() ? 0 : std::min(before->second, change.refused);
    const bool tighter = !evidence_.pids || change.refused > evidence_.pids->refused ||
                         (evidence_.pids->refused == 0 && change.limit < evidence_.pids->limit);
    if (tighter) evidence_.pids = change;
  }
  if (const auto pressure = read_pressure("memory"))
    evidence_.memory_full_peak = std::max(evidence_.memory_full_peak, pressure->full10);
  if (!options_.heartbeat_path.empty()) {
    if (auto heartbeat = read_heartbeat(options_.heartbeat_path);
        heartbeat && known_.contains(heartbeat->pid))
      evidence_.heartbeat = std::move(heartbeat);
  }
  read_kernel_log();
  evidence_.elapsed_s = elapsed();
  evidence_.points = memory_.points();
  // A dying process gives its memory back before it is a zombie: that is not part of its life.
  auto& points = evidence_.points;
  while (points.size() > 1 && points.back().time > evidence_.elapsed_s - 0.6 &&
         static_cast<double>(points.back().bytes) <
             0.7 * static_cast<double>(points[points.size() - 2].bytes))
    points.pop_back();
  evidence_.curve = classify(evidence_.points);
  if (!evidence_.exit.signaled && evidence_.exit.number > 128) {
    for (KernelRecord& record : unclear_) {
      if (record.pid > options_.root && !read_stat(record.pid))
        evidence_.kernel.push_back(std::move(record));
    }
  }
}

}  // namespace surefit::guard
