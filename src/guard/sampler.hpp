// SPDX-License-Identifier: Apache-2.0
// Gathers evidence while the child lives: afterwards /proc/PID is gone. One tick every 250 ms for
// resident memory; slower things every second and every few seconds.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/cgroup.hpp"
#include "guard/evidence.hpp"
#include "guard/forecast.hpp"
#include "guard/kernel_log.hpp"
#include "guard/machine.hpp"
#include "run/blackbox.hpp"

namespace surefit::guard {

struct SamplerOptions {
  pid_t root = 0;                // the process watched; 0 = attach() will tell
  bool whole_guard = true;       // also processes that were re-parented to the guard
  std::string own_group{};       // cgroup directory made for the child; empty = none
  std::string heartbeat_path{};  // empty = none
  std::vector<DiskState> disks{};
};

class Sampler {
 public:
  // To be made before the child starts, so that its first millisecond counts; attach() tells who it
  // is.
  explicit Sampler(SamplerOptions options);
  void attach(pid_t root);

  void tick();     // cheap; looks at the clock itself
  void resumed();  // after Ctrl-Z: the time stopped is no hang
  void output_seen(std::size_t bytes) { output_bytes_ += bytes; }
  // After the death and before the zombie is reaped: the last counters.
  void finish();

  Evidence& evidence() { return evidence_; }
  const BlackBoxSample& last() const { return last_; }
  const History& history() const { return memory_; }
  std::optional<Forecast> forecast_now() const;
  std::uint64_t headroom_now() const { return headroom_; }
  double elapsed() const;
  double idle_seconds() const;
  std::uint64_t oom_kills_so_far() const;
  const std::vector<pid_t>& tree() const { return tree_; }

 private:
  void sample_memory(double now);
  void sample_second(double now);
  void sample_slow(double now);
  void sample_progress(double now, double cpu_seconds, std::uint64_t io);
  void read_groups(bool begin);
  void read_kernel_log();
  void find_tree(double now);

  SamplerOptions options_;
  Evidence evidence_;
  CgroupChain chain_;
  KernelLog kernel_log_;
  History memory_;
  BlackBoxSample last_;
  std::vector<pid_t> tree_;
  std::set<pid_t> known_;
  std::vector<KernelRecord>
      unclear_;  // of pids never seen: taken only if a wrapper reports a signal
  double start_ = 0, next_second_ = 0, next_slow_ = 0, next_walk_ = 0, last_second_ = 0;
  double busy_at_ = 0;
  double last_cpu_ = 0;
  std::uint64_t last_io_ = 0, output_bytes_ = 0, last_output_ = 0;
  double last_beat_ = 0;
  std::uint64_t headroom_ = kNoLimit, reclaimable_ = 0, swapped_ = 0, major_faults_ = 0;
  std::optional<std::uint64_t> begin_oom_kill_;
  std::uint64_t begin_periods_ = 0, begin_throttled_ = 0;
  std::map<std::string, std::uint64_t> begin_refused_;
  std::uint64_t first_workers_ = 0;
};

}  // namespace surefit::guard
