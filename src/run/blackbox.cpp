// SPDX-License-Identifier: Apache-2.0
#include "run/blackbox.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "surefit/error.hpp"

namespace surefit {
namespace {

constexpr std::uint64_t kMagic = 0x31584f424b4c4253;  // "SBLKBOX1"
constexpr std::size_t kHeaderBytes = 4096;
constexpr std::size_t kSampleOffset = kHeaderBytes;
constexpr std::size_t kTailOffset = kSampleOffset + BlackBox::kSamples * sizeof(BlackBoxSample);
constexpr std::size_t kNoteOffset = kTailOffset + BlackBox::kTailBytes;
constexpr std::size_t kFileBytes = kNoteOffset + BlackBox::kNoteBytes;

struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t ended;
  std::uint64_t samples_written;
  std::uint64_t tail_written;
  std::uint64_t note_bytes;
  BlackBoxIdentity identity;
  std::array<char, 1024> ending;
};
static_assert(sizeof(Header) <= kHeaderBytes);

Header& header_of(char* map) {
  return *reinterpret_cast<Header*>(map);
}

template <std::size_t N>
std::string bounded(const std::array<char, N>& text) {
  return {text.data(), ::strnlen(text.data(), N)};
}

}  // namespace

BlackBox::BlackBox(const std::string& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const auto fail = [&](const char* what, int error) {
    if (fd_ >= 0) ::close(fd_);
    throw SystemError(fmt::format("[black box] cannot {} {}: {}", what, path, std::strerror(error)),
                      error);
  };
  if (fd_ < 0) fail("create", errno);
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) fail("lock", errno);
  // Reserved now: a full disk must not raise SIGBUS in the guard while it writes about a full disk.
  const int full = ::posix_fallocate(fd_, 0, kFileBytes);
  if (full != 0 && full != EOPNOTSUPP && full != EINVAL) fail("reserve space for", full);
  if (::ftruncate(fd_, kFileBytes) != 0) fail("size", errno);
  void* map = ::mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (map == MAP_FAILED) fail("map", errno);
  map_ = static_cast<char*>(map);
  // A map holds its file open, and with it the lock: children must not inherit it, or the lock
  // would outlive the guard until they end.
  ::madvise(map_, kFileBytes, MADV_DONTFORK);
  std::memset(map_, 0, kHeaderBytes);
  header_of(map_).version = 1;
  header_of(map_).magic = kMagic;
}

BlackBox::~BlackBox() {
  ::munmap(map_, kFileBytes);
  ::close(fd_);
}

void BlackBox::identify(const BlackBoxIdentity& identity) {
  header_of(map_).identity = identity;
}

void BlackBox::sample(const BlackBoxSample& sample) {
  Header& header = header_of(map_);
  const std::size_t slot = header.samples_written % kSamples;
  std::memcpy(map_ + kSampleOffset + slot * sizeof(sample), &sample, sizeof(sample));
  ++header.samples_written;
}

void BlackBox::tail(std::string_view bytes) {
  Header& header = header_of(map_);
  if (bytes.size() > kTailBytes) {
    header.tail_written += bytes.size() - kTailBytes;
    bytes.remove_prefix(bytes.size() - kTailBytes);
  }
  while (!bytes.empty()) {
    const std::size_t at = header.tail_written % kTailBytes;
    const std::size_t count = std::min(bytes.size(), kTailBytes - at);
    std::memcpy(map_ + kTailOffset + at, bytes.data(), count);
    header.tail_written += count;
    bytes.remove_prefix(count);
  }
}

void BlackBox::note(std::string_view line) {
  Header& header = header_of(map_);
  const std::size_t count =
      std::min(line.size() + 1, kNoteBytes - std::min<std::size_t>(kNoteBytes, header.note_bytes));
  if (count == 0) return;
  std::memcpy(map_ + kNoteOffset + header.note_bytes, line.data(), count - 1);
  map_[kNoteOffset + header.note_bytes + count - 1] = '\n';
  header.note_bytes += count;
}

void BlackBox::start_writeback() {
  ::sync_file_range(fd_, 0, kFileBytes, SYNC_FILE_RANGE_WRITE);
}

void BlackBox::end(std::string_view ending) {
  Header& header = header_of(map_);
  header.ending.fill('\0');
  std::copy_n(ending.data(), std::min(ending.size(), header.ending.size() - 1),
              header.ending.data());
  header.ended = 1;
  ::fdatasync(fd_);
}

std::optional<BlackBoxContent> read_black_box(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::string bytes(kFileBytes, '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  ::close(fd);
  if (done != bytes.size()) return std::nullopt;
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic || header.version != 1) return std::nullopt;

  BlackBoxContent content;
  content.identity = header.identity;
  content.identity.boot_id.back() = content.identity.directory.back() = '\0';
  content.identity.command.back() = content.identity.cgroup.back() = '\0';
  content.ended = header.ended != 0;
  content.ending = bounded(header.ending);
  const std::uint64_t count = std::min<std::uint64_t>(header.samples_written, BlackBox::kSamples);
  for (std::uint64_t i = header.samples_written - count; i < header.samples_written; ++i) {
    BlackBoxSample sample;
    std::memcpy(&sample, bytes.data() + kSampleOffset + i % BlackBox::kSamples * sizeof(sample),
                sizeof(sample));
    content.samples.push_back(sample);
  }
  const std::uint64_t kept = std::min<std::uint64_t>(header.tail_written, BlackBox::kTailBytes);
  for (std::uint64_t i = header.tail_written - kept; i < header.tail_written; ++i) {
    content.tail.push_back(bytes[kTailOffset + i % BlackBox::kTailBytes]);
  }
  content.notes.assign(bytes, kNoteOffset,
                       std::min<std::uint64_t>(header.note_bytes, BlackBox::kNoteBytes));
  return content;
}

bool black_box_is_live(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool live = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return live;
}

}  // namespace surefit
