// SPDX-License-Identifier: Apache-2.0
#include "base/proc_file.hpp"

#include <algorithm>
#include <charconv>
#include <fcntl.h>
#include <unistd.h>

namespace surefit {
namespace {

std::uint64_t to_number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

ProcBuffer& own_buffer() {
  thread_local ProcBuffer buffer;
  return buffer;
}

}  // namespace

std::string_view slurp_into(const char* path, ProcBuffer& buffer) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return {};
  std::size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t got = ::read(fd, buffer.data() + done, buffer.size() - done);
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  ::close(fd);
  return {buffer.data(), done};
}

std::string slurp(const std::string& path) {
  return std::string(slurp_into(path.c_str(), own_buffer()));
}

std::optional<std::uint64_t> slurp_number(const std::string& path) {
  const std::string_view text = slurp_into(path.c_str(), own_buffer());
  if (text.empty()) return std::nullopt;
  if (text.starts_with("max")) return kNoLimit;
  if (text.front() == '-') return kNoLimit;  // cpu.cfs_quota_us = -1
  const std::uint64_t value = to_number(text);
  return value >= 0x7ffffffffffff000 ? kNoLimit : value;  // v1's "no limit"
}

std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key) {
  std::size_t at = 0;
  while ((at = text.find(key, at)) != std::string_view::npos) {
    if (at == 0 || text[at - 1] == '\n') {
      std::string_view rest = text.substr(at + key.size());
      const bool whole_key =
          !key.empty() && (key.back() == ':' || key.back() == ' ' || rest.starts_with(' '));
      if (whole_key)
        return to_number(rest.substr(std::min(rest.size(), rest.find_first_not_of(" \t"))));
    }
    at += key.size();
  }
  return std::nullopt;
}

}  // namespace surefit
