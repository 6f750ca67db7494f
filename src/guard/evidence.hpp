// SPDX-License-Identifier: Apache-2.0
// Everything the guard holds when a process dies. Rules read this struct and nothing else, so that
// a test can write one down for a death no test machine can provoke.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cgroup.hpp"
#include "guard/proc.hpp"
#include "run/heartbeat.hpp"

namespace surefit::guard {

struct Exit {
  bool signaled = false;
  int number = 0;  // status or signal
  bool core = false;
  bool known = true;  // a watcher is not told
};

// A memory group at the start and at the end of the attempt.
struct MemoryChange {
  MemoryLevel begin, end;
  bool own = false;  // made by the guard for the child alone
  std::optional<std::uint64_t> oom_kills() const;
  std::optional<std::uint64_t> ooms() const;
  std::uint64_t failures() const;
};

struct KernelRecord {
  enum class Kind { kMemcgOom, kHostOom, kSegfault, kTrap, kMemoryFailure, kXid, kOther };
  Kind kind = Kind::kOther;
  pid_t pid = 0;
  std::string name;  // of the process
  std::string text;
  std::uint64_t address = 0, stack_pointer = 0;
  std::string object;  // library or program the fault was in
};

struct DiskState {
  std::string role;  // "working directory", "temporary files", "/dev/shm", "checkpoints"
  std::string path;
  std::uint64_t total = 0, free = 0, inodes = 0, free_inodes = 0;
  std::uint64_t least_free = ~std::uint64_t{0};
  std::uint64_t first_free = 0;  // when the attempt began
  bool full() const {
    return total > 0 && (free < total / 100 || least_free < total / 100) &&
           least_free < (64u << 20);
  }
  bool out_of_inodes() const { return inodes > 0 && free_inodes == 0; }
};

struct Pressure {
  double some10 = 0, full10 = 0;  // percent of the last ten seconds
};

enum class Shape { kUnknown, kFlat, kLinear, kStaircase, kSawtooth, kSpike };

struct Curve {
  Shape shape = Shape::kUnknown;
  double bytes_per_second = 0;  // Theil-Sen
  double grown_bytes = 0;       // over `seconds`
  double seconds = 0;
  int steps = 0;  // of a staircase
};

struct Point {
  double time = 0;  // seconds since the attempt began
  std::uint64_t bytes = 0;
};

// What the guard itself did to the child.
enum class GuardAction { kNone, kTimeLimit, kHang, kLeak, kMemory, kPassedSignal };

struct Evidence {
  std::string command;
  std::string program;  // first word
  bool own_trainer = false;
  Exit exit;
  double elapsed_s = 0;
  double cpu_seconds = 0;  // of the main process
  int attempt = 1;
  std::map<std::string, std::string> environment;  // only what rules look at (SLURM_*, KAGGLE_*)

  // memory
  std::uint64_t rss_peak = 0, rss_last = 0, pss_last = 0, used_last = 0, limit = kNoLimit;
  std::string limit_source;
  std::vector<MemoryChange> groups;             // own first
  std::optional<std::uint64_t> host_oom_kills;  // change of /proc/vmstat oom_kill
  std::uint64_t mem_total = 0, mem_available = 0, swap_total = 0, swap_used = 0;
  std::uint64_t committed = 0, commit_limit = 0;
  int overcommit = 0;
  std::uint64_t virtual_peak = 0;
  double swap_pages_per_second = 0;  // in and out, highest over a few seconds
  double major_faults_per_second = 0;
  std::optional<Pressure> memory_pressure, io_pressure;
  double memory_full_peak = 0;  // highest full10
  Curve curve;
  std::vector<Point> points;
  std::optional<double> workers_grown_bytes;  // of all processes but the first
  ArenaCount arenas;
  int processes_peak = 0, processes_lost = 0;  // lost = vanished while the parent lived on
  std::string largest_name;                    // process with the largest RSS
  std::uint64_t largest_rss = 0;

  // limits and resources
  ProcessLimits limits;
  int fds_peak = 0, threads_peak = 0;
  std::optional<PidsLevel> pids;  // the tightest; refused = refusals during the attempt
  std::vector<DiskState> disks;
  double quota_cores = 0, throttled_share = 0;
  int online_cores = 0;
  std::optional<double> temperature;  // hottest sensor, Celsius; nothing = no sensor
  double temperature_trip = 0;
  std::string cpu_flags;

  // words
  std::string stderr_tail, stdout_tail;
  std::vector<KernelRecord> kernel;
  bool kernel_log_readable = false;

  // progress
  std::optional<Heartbeat> heartbeat;
  std::string waiting;  // what the main thread waited for at the last look
  double idle_s = 0;    // no CPU, no I/O, no output, no heartbeat
  bool nan_seen = false;
  std::string nan_line;

  // guard
  GuardAction action = GuardAction::kNone;
  int passed_signal = 0;
  std::string passed_from;  // "pid 12 (bash)"
  double max_time_s = 0;
  std::string exec_error;  // the command could not be started
  int exec_errno = 0;

  const KernelRecord* kernel_record(KernelRecord::Kind kind) const;
  const DiskState* disk(std::string_view role) const;
};

}  // namespace surefit::guard
