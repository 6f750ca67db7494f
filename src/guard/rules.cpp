// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <signal.h>

#include "base/units.hpp"
#include "guard/diagnosis.hpp"
#include "guard/words.hpp"

namespace surefit::guard {

std::optional<std::uint64_t> MemoryChange::oom_kills() const {
  if (!begin.oom_kill || !end.oom_kill) return std::nullopt;
  return *end.oom_kill - std::min(*end.oom_kill, *begin.oom_kill);
}

std::optional<std::uint64_t> MemoryChange::ooms() const {
  if (!begin.oom || !end.oom) return std::nullopt;
  return *end.oom - std::min(*end.oom, *begin.oom);
}

std::uint64_t MemoryChange::failures() const {
  if (!begin.failures || !end.failures) return 0;
  return *end.failures - std::min(*end.failures, *begin.failures);
}

const KernelRecord* Evidence::kernel_record(KernelRecord::Kind kind) const {
  const auto found = std::find_if(kernel.begin(), kernel.end(),
                                  [&](const KernelRecord& r) { return r.kind == kind; });
  return found == kernel.end() ? nullptr : &*found;
}

const DiskState* Evidence::disk(std::string_view role) const {
  const auto found =
      std::find_if(disks.begin(), disks.end(), [&](const DiskState& d) { return d.role == role; });
  return found == disks.end() ? nullptr : &*found;
}

std::string_view confidence_name(Confidence confidence) {
  switch (confidence) {
    case Confidence::kCertain:
      return "certain";
    case Confidence::kProbable:
      return "probable";
    case Confidence::kPossible:
      return "possible";
  }
  return "possible";
}

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? fmt::format("signal {}", number) : fmt::format("SIG{}", name);
}

std::string mebibytes(double bytes) {
  const double value = bytes / 0x1p20;
  if (value < 9.95) return fmt::format("{:.1f}", value);
  std::string digits = fmt::format("{:.0f}", value);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

bool died_of(const Evidence& evidence, int signal) {
  return evidence.exit.signaled && evidence.exit.number == signal;
}

bool died_of_or_wrapped(const Evidence& evidence, int signal) {
  return died_of(evidence, signal) ||
         (!evidence.exit.signaled && evidence.exit.number == 128 + signal);
}

std::string memory_story(const Evidence& evidence) {
  std::uint64_t peak = std::max(evidence.used_last, evidence.rss_peak);
  if (evidence.limit != kNoLimit) {
    for (const MemoryChange& group : evidence.groups) {
      if (group.own || group.end.limit == evidence.limit)
        peak = std::max(peak, std::min(group.end.peak, group.end.limit));
    }
    peak = std::min(peak, evidence.limit);
  }
  std::string story =
      evidence.limit == kNoLimit
          ? fmt::format("peak {} MiB, no limit", mebibytes(static_cast<double>(peak)))
          : fmt::format("peak {} of {} MiB", mebibytes(static_cast<double>(peak)),
                        mebibytes(static_cast<double>(evidence.limit)));
  const Curve& curve = evidence.curve;
  if ((curve.shape == Shape::kLinear || curve.shape == Shape::kStaircase) &&
      curve.bytes_per_second > 1024) {
    story += fmt::format(", growing {} MiB/s", mebibytes(curve.bytes_per_second));
  }
  return story;
}

OomCount count_ooms(const Evidence& evidence) {
  OomCount count;
  for (const MemoryChange& group : evidence.groups) {
    const auto kills = group.oom_kills();
    if (!kills) continue;
    // Only a group of our own counts kills of ours alone; an ancestor's counter may speak of a
    // stranger.
    if (group.own) {
      count.known = true;
      count.kills = std::max(count.kills, *kills);
    }
  }
  if (!count.known && !evidence.groups.empty() && evidence.groups.front().oom_kills()) {
    count.known = true;
    count.kills = *evidence.groups.front().oom_kills();
  }
  for (const MemoryChange& group : evidence.groups) {
    if (group.end.limit == kNoLimit) continue;
    const bool v2_hit = group.ooms().value_or(0) > 0;
    // v1 keeps no count of its own limit's kills; where memory + swap is limited too, failcnt stays
    // 0.
    const bool refused = group.failures() > 0 || (group.own && group.oom_kills().value_or(0) > 0);
    const bool v1_hit = !group.end.v2 && refused && group.end.peak >= group.end.limit / 100 * 95;
    if (v2_hit || v1_hit) {
      count.limit = &group;
      break;
    }
  }
  return count;
}

namespace {

using enum Confidence;

std::optional<Finding> linear_leak(const Evidence& e) {
  if (e.curve.shape != Shape::kLinear) return std::nullopt;
  std::string advice =
      "memory grows at a constant rate: look for a list, history or graph that keeps every step's "
      "result";
  if (e.program.find("python") != std::string::npos) {
    advice +=
        " (PyTorch: `total += loss.item()` instead of `loss`; TensorFlow: `model(x)` instead of "
        "`predict()` in a loop)";
  }
  if (e.workers_grown_bytes && *e.workers_grown_bytes > 0.7 * e.curve.grown_bytes) {
    advice =
        "the growth is in the worker processes: keep the data set in one numpy or Arrow buffer "
        "instead of Python "
        "lists (reference counts copy shared pages), or use fewer workers";
  }
  return Finding{kProbable,
                 fmt::format("+{} MiB/s, {} MiB in {}", mebibytes(e.curve.bytes_per_second),
                             mebibytes(e.curve.grown_bytes), format_duration(e.curve.seconds)),
                 advice + "; --restart-before-leak makes the guard restart it in time"};
}

std::optional<Finding> staircase(const Evidence& e) {
  if (e.curve.shape != Shape::kStaircase) return std::nullopt;
  return Finding{kProbable,
                 fmt::format("{} steps up, {} MiB in {}", e.curve.steps,
                             mebibytes(e.curve.grown_bytes), format_duration(e.curve.seconds)),
                 "something leaks once per call or epoch: validation, predict() or a checkpoint; "
                 "reuse one function "
                 "with fixed shapes, clear the session between models"};
}

std::optional<Finding> spike(const Evidence& e) {
  if (e.curve.shape != Shape::kSpike) return std::nullopt;
  return Finding{kPossible,
                 fmt::format("one jump to {} MiB", mebibytes(static_cast<double>(e.rss_peak))),
                 "one large allocation rather than a leak: the first step, a validation batch or "
                 "one big file; a "
                 "smaller batch there is enough"};
}

std::optional<Finding> fragmentation(const Evidence& e) {
  const bool many = e.arenas.arenas >= 8 && e.arenas.arenas > 2 * std::max(1, e.online_cores);
  if (many && e.rss_peak > 0 && e.arenas.resident_bytes > e.rss_peak / 2) {
    return Finding{kProbable,
                   fmt::format("{} malloc arenas hold {} of {} MiB", e.arenas.arenas,
                               mebibytes(static_cast<double>(e.arenas.resident_bytes)),
                               mebibytes(static_cast<double>(e.rss_peak))),
                   "glibc keeps freed memory per thread: set MALLOC_ARENA_MAX=2 (surefit run "
                   "--tame does) or preload jemalloc"};
  }
  if (e.heartbeat && e.heartbeat->arena_bytes > 0 && e.rss_last > 2 * e.heartbeat->arena_bytes &&
      e.rss_last > e.heartbeat->arena_bytes + (256u << 20)) {
    return Finding{
        kProbable,
        fmt::format("resident {} MiB, planned {} MiB", mebibytes(static_cast<double>(e.rss_last)),
                    mebibytes(static_cast<double>(e.heartbeat->arena_bytes))),
        "memory outside the plan: please report this with plan.json"};
  }
  return std::nullopt;
}

std::optional<Finding> swap_thrash(const Evidence& e) {
  if (e.swap_pages_per_second > 2000 && e.memory_full_peak > 20) {
    return Finding{
        kCertain,
        fmt::format("{:.0f} pages/s in and out of swap, everything stalled {:.0f} % of the time",
                    e.swap_pages_per_second, e.memory_full_peak),
        "the working set is larger than RAM: shrink the batch, or set --max-memory below the RAM "
        "so that "
        "it fails early instead of freezing the machine"};
  }
  if (e.memory_full_peak > 40) {
    return Finding{
        kProbable,
        fmt::format("memory pressure: everything stalled {:.0f} % of the time", e.memory_full_peak),
        "the machine spends its time reclaiming memory: shrink the batch or stop other programs"};
  }
  return std::nullopt;
}

std::optional<Finding> throttled(const Evidence& e) {
  if (e.throttled_share < 0.5 || e.quota_cores <= 0) return std::nullopt;
  return Finding{
      kCertain,
      fmt::format(
          "stopped by the CPU quota in {:.0f} % of all periods; quota {:.1f} cores, {} threads",
          100 * e.throttled_share, e.quota_cores, e.threads_peak),
      fmt::format("threads were counted from the host's cores: set OMP_NUM_THREADS={} (surefit run "
                  "--tame does)",
                  std::max(1, static_cast<int>(e.quota_cores + 0.999)))};
}

std::optional<Finding> hot(const Evidence& e) {
  if (!e.temperature || e.temperature_trip <= 0 || *e.temperature < e.temperature_trip - 3)
    return std::nullopt;
  return Finding{kProbable,
                 fmt::format("{:.0f} C, the sensor's trip point is {:.0f} C", *e.temperature,
                             e.temperature_trip),
                 "the machine slows itself down or shuts off: better cooling or fewer threads"};
}

constexpr std::array kPatterns{
    Rule{"linear-leak", "memory leak, linear", Retry::kTransient, linear_leak},
    Rule{"staircase", "memory leak, in steps", Retry::kTransient, staircase},
    Rule{"spike", "one memory spike", Retry::kNever, spike},
    Rule{"fragmentation", "memory held by the allocator", Retry::kTransient, fragmentation},
    Rule{"swap-thrash", "swap thrashing", Retry::kNever, swap_thrash},
    Rule{"cpu-throttled", "throttled by the CPU quota", Retry::kNever, throttled},
    Rule{"overheating", "close to the thermal limit", Retry::kNever, hot},
};

Verdict verdict_of(const Rule& rule, Finding finding) {
  return {std::string(rule.cause),     std::string(rule.title),   finding.confidence,
          std::move(finding.evidence), std::move(finding.advice), rule.retry};
}

}  // namespace

std::span<const Rule> pattern_rules() {
  return kPatterns;
}

std::span<const Rule> death_rules() {
  static const std::vector<Rule> all = [] {
    std::vector<Rule> rules;
    for (const auto& part : {killed_rules(), crash_rules(), program_rules()}) {
      rules.insert(rules.end(), part.begin(), part.end());
    }
    return rules;
  }();
  return all;
}

bool is_death(const Evidence& evidence) {
  return evidence.exit.signaled || evidence.exit.number != 0 || !evidence.exec_error.empty();
}

std::vector<Verdict> find_patterns(const Evidence& evidence) {
  std::vector<Verdict> found;
  for (const Rule& rule : pattern_rules()) {
    if (auto finding = rule.look(evidence)) found.push_back(verdict_of(rule, std::move(*finding)));
  }
  return found;
}

Diagnosis diagnose(const Evidence& evidence) {
  Diagnosis diagnosis;
  for (const Rule& rule : death_rules()) {
    if (auto finding = rule.look(evidence)) {
      diagnosis.verdict = verdict_of(rule, std::move(*finding));
      break;
    }
  }
  diagnosis.patterns = find_patterns(evidence);
  return diagnosis;
}

}  // namespace surefit::guard
