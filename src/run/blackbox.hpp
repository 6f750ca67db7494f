// SPDX-License-Identifier: Apache-2.0
// The black box: a file of fixed size that the guard writes through a shared map, so that it
// survives kill -9 of the guard itself. Write-out to the disk is started every second without
// waiting; a power cut loses a few seconds.
//
// Layout (little endian): header page; kSamples samples of 64 bytes as a ring; kTailBytes of the
// child's last stderr as a ring; kNoteBytes of the guard's own notes, appended. Readers trust
// nothing: lengths are checked, text is bounded.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace surefit {

struct BlackBoxSample {
  double time = 0;  // Unix time
  std::uint64_t rss_bytes = 0;
  std::uint64_t pss_bytes = 0;    // of the tree, 0 where not measured yet
  std::uint64_t used_bytes = 0;   // charged to the tightest cgroup and not reclaimable
  std::uint64_t limit_bytes = 0;  // tightest limit, 0 = none
  std::uint64_t step = 0;         // from the heartbeat
  std::uint32_t processes = 0;
  std::uint32_t threads = 0;
  std::uint32_t fds = 0;
  float cpu = 0;  // cores in use
};
static_assert(sizeof(BlackBoxSample) == 64);

struct BlackBoxIdentity {
  std::int32_t guard_pid = 0;
  std::int32_t child_pid = 0;
  std::uint64_t child_start_ticks = 0;  // tells the child from a later process with the same pid
  double start_time = 0;
  std::array<char, 40> boot_id{};
  std::array<char, 512> directory{};
  std::array<char, 1024> command{};
  std::array<char, 256> cgroup{};
};

struct BlackBoxContent {
  BlackBoxIdentity identity;
  bool ended = false;                   // the guard said goodbye
  std::string ending;                   // its words
  std::vector<BlackBoxSample> samples;  // oldest first
  std::string tail;                     // last stderr
  std::string notes;
};

class BlackBox {
 public:
  static constexpr std::size_t kSamples = 600;
  static constexpr std::size_t kTailBytes = 64 << 10;
  static constexpr std::size_t kNoteBytes = 8 << 10;

  // Creates or replaces the file and holds a lock on it. Throws SystemError; EWOULDBLOCK = another
  // guard lives.
  explicit BlackBox(const std::string& path);
  ~BlackBox();
  BlackBox(const BlackBox&) = delete;
  BlackBox& operator=(const BlackBox&) = delete;

  void identify(const BlackBoxIdentity& identity);
  void sample(const BlackBoxSample& sample);
  void tail(std::string_view bytes);
  void note(std::string_view line);
  void start_writeback();             // does not wait
  void end(std::string_view ending);  // goodbye, synced
  const std::string& path() const { return path_; }

 private:
  int fd_ = -1;
  char* map_ = nullptr;
  std::string path_;
};

// Nothing where there is no readable black box.
std::optional<BlackBoxContent> read_black_box(const std::string& path);
// True while a guard holds the lock.
bool black_box_is_live(const std::string& path);

}  // namespace surefit
