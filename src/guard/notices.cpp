// SPDX-License-Identifier: Apache-2.0
#include "guard/notices.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/units.hpp"
#include "guard/diagnosis.hpp"
#include "guard/words.hpp"

namespace surefit::guard {

void Notices::tell(const std::string& text, bool remember) {
  if (!options_.quiet) streams_.say("surefit: " + text);
  if (remember && told_.size() < 32) told_.push_back(text);
  store_.event("notice",
               nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void Notices::once(const std::string& key, const std::string& text) {
  if (said_.insert(key).second) tell(text);
}

void Notices::look(Sampler& sampler) {
  const double now = sampler.elapsed();
  if (now < next_look_) return;
  next_look_ = now + 1;
  const Evidence& e = sampler.evidence();
  look_at_memory(sampler);
  if (const std::uint64_t kills = sampler.oom_kills_so_far(); kills > oom_kills_) {
    oom_kills_ = kills;
    // The main process may be the victim: its end is told by the obituary.
    const auto root = sampler.tree().empty() ? std::nullopt : read_stat(sampler.tree().front());
    if (root && root->state != 'Z')
      once("worker-oom",
           "a process of the command was killed for memory while the command lives on; it may now "
           "wait for it forever");
  }
  for (const DiskState& disk : e.disks) {
    if (disk.total > 0 && disk.free < std::min<std::uint64_t>(disk.total / 50, 512u << 20))
      once("disk" + disk.role,
           fmt::format("{} ({}) has only {} left", disk.role, disk.path, format_bytes(disk.free)));
    if (disk.inodes > 0 && disk.free_inodes < disk.inodes / 100)
      once("inodes" + disk.role,
           fmt::format("{} ({}) has only {} inodes left", disk.role, disk.path, disk.free_inodes));
  }
  if (e.limits.files != kNoLimit && e.fds_peak > 0 &&
      static_cast<std::uint64_t>(e.fds_peak) > e.limits.files / 10 * 8)
    once("fds", fmt::format("{} of {} open files used (ulimit -n)", e.fds_peak, e.limits.files));
  if (e.heartbeat && std::isnan(e.heartbeat->loss))
    once("nan", fmt::format("the loss is NaN since step {}", e.heartbeat->step));
  if (sampler.idle_seconds() > options_.idle_notice_s && e.waiting != "input from the terminal" &&
      e.waiting != "a timer (sleep)") {
    once("idle", fmt::format("possible hang: no CPU, no I/O, no output for {}{}",
                             format_duration(sampler.idle_seconds()),
                             e.waiting.empty() ? "" : "; it waits for " + e.waiting));
  }
  if (e.memory_full_peak > 30)
    once("thrash",
         fmt::format("the machine is short of memory: everything stalls {:.0f} % of the time",
                     e.memory_full_peak));
}

void Notices::look_at_memory(const Sampler& sampler) {
  const auto coming = steady_.look(sampler.forecast_now());
  if (!coming) return;
  // Far away is no news; then again at a quarter of the time told last.
  if (coming->seconds > 6 * 3600 || coming->seconds > told_seconds_ / 4) return;
  const bool first = told_seconds_ > 1e17;  // the obituary repeats the first one only
  told_seconds_ = coming->seconds;
  tell(fmt::format("{} after the start: memory will hit the limit in {} at the present rate: {} "
                   "MiB left, growing {} MiB/s over the last {}",
                   format_duration(sampler.elapsed()), format_duration(coming->seconds),
                   mebibytes(static_cast<double>(sampler.headroom_now())),
                   mebibytes(coming->bytes_per_second), format_duration(coming->window_s)),
       first);
}

void Notices::look_at_output(std::string_view bytes, Evidence& e) {
  if (e.nan_seen) return;
  // Lines are put together over reads; only those that could tell of a loss are looked at.
  for (const char c : bytes) {
    if (c != '\n' && c != '\r') {
      if (line_.size() < 2048) line_ += c;
      continue;
    }
    if (line_.size() > 6 && tells_nan_loss(line_)) {
      e.nan_seen = true;
      const auto clean = last_lines(line_, 1);
      e.nan_line = clean.empty() ? line_ : clean.back();
      once("nan", "the loss is no longer finite: " + e.nan_line);
    }
    line_.clear();
    if (e.nan_seen) return;
  }
}

void Notices::look_at_tail(Evidence& e) {
  for (const std::string* tail : {&e.stdout_tail, &e.stderr_tail}) {
    for (const std::string& line : last_lines(*tail, 20)) {
      if (e.nan_seen || !tells_nan_loss(line)) continue;
      e.nan_seen = true;
      e.nan_line = line;
      once("nan", "the loss is no longer finite: " + line);
    }
  }
}

}  // namespace surefit::guard
