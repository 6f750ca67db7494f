// SPDX-License-Identifier: Apache-2.0
#include "run/heartbeat.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <new>
#include <sys/mman.h>
#include <type_traits>
#include <unistd.h>

#include "surefit/error.hpp"

namespace surefit {
namespace {

constexpr std::uint64_t kMagic = 0x3154414548544653;  // "SFTHEAT1", little endian
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kPayloadWords = sizeof(Heartbeat) / sizeof(std::uint64_t);
constexpr std::size_t kFileBytes = 4096;

static_assert(std::is_trivially_copyable_v<Heartbeat> && sizeof(Heartbeat) % 8 == 0);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// A sequence lock over plain words: odd while a beat is being written.
struct Record {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t payload_bytes;
  std::atomic<std::uint64_t> sequence;
  std::array<std::atomic<std::uint64_t>, kPayloadWords> payload;
};
static_assert(sizeof(Record) <= kFileBytes);

struct RecordImage {  // what a reader copies out of the file
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t payload_bytes;
  std::uint64_t sequence;
  std::array<std::uint64_t, kPayloadWords> payload;
};
static_assert(sizeof(RecordImage) == sizeof(Record));

}  // namespace

std::string_view phase_name(RunPhase phase) {
  constexpr std::array<std::string_view, 8> kNames{"starting",   "planning", "training",
                                                   "validating", "saving",   "waiting for data",
                                                   "stopping",   "done"};
  const auto index = static_cast<std::size_t>(phase);
  return index < kNames.size() ? kNames[index] : "unknown";
}

void Heartbeat::set_layer(std::string_view name) {
  layer.fill('\0');
  std::copy_n(name.data(), std::min(name.size(), layer.size() - 1), layer.data());
}

std::string_view Heartbeat::layer_name() const {
  return {layer.data(), ::strnlen(layer.data(), layer.size())};
}

HeartbeatWriter::HeartbeatWriter(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    throw SystemError(
        fmt::format("[heartbeat] cannot create {}: {}; expected a writable run directory", path,
                    std::strerror(errno)),
        errno);
  }
  const int full = ::posix_fallocate(fd, 0, kFileBytes);
  const bool sized =
      full == 0 || ((full == EOPNOTSUPP || full == EINVAL) && ::ftruncate(fd, kFileBytes) == 0);
  if (sized) map_ = ::mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int error = full != 0 && !sized ? full : errno;
  ::close(fd);
  if (!sized || map_ == MAP_FAILED) {
    throw SystemError(fmt::format("[heartbeat] cannot map {}: {}", path, std::strerror(error)),
                      error);
  }
  auto* record = new (map_) Record;
  record->sequence.store(1, std::memory_order_relaxed);
  record->magic = kMagic;
  record->version = kVersion;
  record->payload_bytes = sizeof(Heartbeat);
  Heartbeat first;
  first.pid = ::getpid();
  beat(first);
}

HeartbeatWriter::~HeartbeatWriter() {
  ::munmap(map_, kFileBytes);
}

void HeartbeatWriter::beat(const Heartbeat& heartbeat) noexcept {
  auto* record = static_cast<Record*>(map_);
  std::array<std::uint64_t, kPayloadWords> words;
  std::memcpy(words.data(), &heartbeat, sizeof(heartbeat));
  const std::uint64_t odd = record->sequence.load(std::memory_order_relaxed) | 1;
  record->sequence.store(odd, std::memory_order_relaxed);
  // Each behind the odd number: no word of this beat may be seen without it.
  for (std::size_t i = 0; i < kPayloadWords; ++i) {
    record->payload[i].store(words[i], std::memory_order_release);
  }
  record->sequence.store(odd + 1, std::memory_order_release);
}

std::optional<Heartbeat> read_heartbeat(const std::string& path) {
  // Read, not mapped: a file that somebody truncates must not raise SIGBUS in the guard.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::optional<Heartbeat> result;
  for (int attempt = 0; attempt < 8 && !result; ++attempt) {
    RecordImage image{};
    std::uint64_t after = 0;
    const bool whole =
        ::pread(fd, &image, sizeof(image), 0) == static_cast<ssize_t>(sizeof(image)) &&
        ::pread(fd, &after, sizeof(after), offsetof(RecordImage, sequence)) ==
            static_cast<ssize_t>(sizeof(after));
    if (!whole || image.magic != kMagic || image.version != kVersion ||
        image.payload_bytes != sizeof(Heartbeat)) {
      break;
    }
    if (image.sequence % 2 != 0 || image.sequence != after) continue;
    result.emplace();
    std::memcpy(static_cast<void*>(&*result), image.payload.data(), sizeof(Heartbeat));
    result->layer.back() = '\0';
  }
  ::close(fd);
  return result;
}

}  // namespace surefit
