// SPDX-License-Identifier: Apache-2.0
#include "guard/kernel_log.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

namespace surefit::guard {
namespace {

std::uint64_t hex_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return 0;
  text.remove_prefix(at + key.size());
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

pid_t decimal_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return 0;
  text.remove_prefix(at + key.size());
  pid_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// " in libfoo.so[1134,55bf...]" -> "libfoo.so"
std::string object_in(std::string_view text) {
  const std::size_t at = text.rfind(" in ");
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + 4);
  return std::string(text.substr(0, text.find_first_of("[ \n")));
}

// "name[123]: segfault at ..." and "traps: name[123] trap invalid opcode ..."
void take_process(std::string_view text, KernelRecord& record) {
  const std::size_t open = text.find('[');
  if (open == std::string_view::npos) return;
  record.name = text.substr(0, open);
  record.pid = decimal_after(text, "[");
}

}  // namespace

std::optional<KernelRecord> parse_kernel_record(std::string_view message) {
  using Kind = KernelRecord::Kind;
  message = message.substr(0, message.find('\n'));
  KernelRecord record;
  record.text = message;
  const auto has = [&](std::string_view part) {
    return message.find(part) != std::string_view::npos;
  };
  if (has("emory cgroup out of memory: Killed process") || has("Out of memory: Killed process") ||
      has("Out of memory (oom_kill_allocating_task): Killed process")) {
    record.kind = has("emory cgroup out") ? Kind::kMemcgOom : Kind::kHostOom;
    record.pid = decimal_after(message, "Killed process ");
    const std::size_t open = message.find('('), close = message.find(')', open);
    if (close != std::string_view::npos) record.name = message.substr(open + 1, close - open - 1);
    return record;
  }
  if (message.starts_with(
          "oom-kill:constraint=")) {  // tells the victim's group, just before the line above
    record.kind = Kind::kOther;
    record.pid = decimal_after(message, ",pid=");
    return record;
  }
  if (has("]: segfault at ")) {
    record.kind = Kind::kSegfault;
    take_process(message, record);
    record.address = hex_after(message, "segfault at ");
    record.stack_pointer = hex_after(message, " sp ");
    record.object = object_in(message);
    return record;
  }
  if (message.starts_with("traps: ") && (has(" trap ") || has("general protection"))) {
    record.kind = Kind::kTrap;
    take_process(message.substr(7), record);
    record.object = object_in(message);
    return record;
  }
  if (has("Memory failure:") || has("Machine check") || has("[Hardware Error]")) {
    record.kind = Kind::kMemoryFailure;
    return record;
  }
  if (has("NVRM: Xid")) {
    record.kind = Kind::kXid;
    return record;
  }
  return std::nullopt;
}

KernelLog::KernelLog() {
  fd_ = ::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd_ < 0) return;
  ::lseek(fd_, 0, SEEK_END);
  std::array<char, 8192> probe{};
  if (::read(fd_, probe.data(), probe.size()) < 0 &&
      errno == EPERM) {  // opened, but dmesg_restrict
    ::close(fd_);
    fd_ = -1;
  }
}

KernelLog::~KernelLog() {
  if (fd_ >= 0) ::close(fd_);
}

void KernelLog::collect(const std::function<void(KernelRecord&&)>& take) {
  if (fd_ < 0) return;
  std::array<char, 8192> buffer;  // one record per read; a smaller buffer gives EINVAL
  for (int guard = 0; guard < 4096; ++guard) {
    const ssize_t got = ::read(fd_, buffer.data(), buffer.size());
    if (got < 0 && errno == EPIPE) continue;  // overrun: the next read gives the oldest record left
    if (got <= 0) return;
    std::string_view text(buffer.data(), static_cast<std::size_t>(got));
    const std::size_t semicolon = text.find(';');
    if (semicolon == std::string_view::npos) continue;
    if (auto record = parse_kernel_record(text.substr(semicolon + 1))) take(std::move(*record));
  }
}

}  // namespace surefit::guard
