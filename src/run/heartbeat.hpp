// SPDX-License-Identifier: Apache-2.0
// The one record that a trainer and its guard share: a small mapped file in the run directory. The
// trainer writes it at every step without a system call or an allocation; the guard reads it while
// the trainer lives and after it died.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace surefit {

enum class RunPhase : std::uint32_t {
  kStarting = 0,
  kPlanning = 1,
  kTraining = 2,
  kValidating = 3,
  kSaving = 4,
  kWaitingForData = 5,
  kStopping = 6,
  kDone = 7,
};
std::string_view phase_name(RunPhase phase);

struct Heartbeat {
  std::int32_t pid = 0;
  RunPhase phase = RunPhase::kStarting;
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t arena_bytes = 0;   // committed by the plan that runs now
  std::uint64_t budget_bytes = 0;  // what that plan was allowed; 0 where unknown
  double monotonic_s = 0;          // CLOCK_MONOTONIC at this beat
  double loss = 0;                 // last finite or non-finite loss; NaN tells the guard at once
  std::array<char, 64> layer{};    // what runs now, NUL-terminated

  void set_layer(std::string_view name);
  std::string_view layer_name() const;
};

class HeartbeatWriter {
 public:
  // Creates or replaces the file; its blocks are reserved, so that a full disk cannot turn a beat
  // into SIGBUS.
  explicit HeartbeatWriter(const std::string& path);
  ~HeartbeatWriter();
  HeartbeatWriter(const HeartbeatWriter&) = delete;
  HeartbeatWriter& operator=(const HeartbeatWriter&) = delete;

  void beat(const Heartbeat& heartbeat) noexcept;  // one writer at a time

 private:
  void* map_ = nullptr;
};

// Nothing where the file is missing, short, of another version, or was being written at each of
// several tries.
std::optional<Heartbeat> read_heartbeat(const std::string& path);

}  // namespace surefit
