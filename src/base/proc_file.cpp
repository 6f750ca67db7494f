// SPDX-License-Identifier: Apache-2.0
#include "base/proc_file.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

namespace surefit {
namespace {

std::uint64_t to_number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::optional<std::uint64_t> to_limit(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (text.starts_with("max")) return kNoLimit;
  if (text.front() == '-') return kNoLimit;  // cpu.cfs_quota_us = -1
  const std::uint64_t value = to_number(text);
  return value >= 0x7ffffffffffff000 ? kNoLimit : value;  // v1's "no limit"
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
  return to_limit(slurp_into(path.c_str(), own_buffer()));
}

std::string_view peek(std::string_view directory, const char* name) {
  std::array<char, PATH_MAX> path;
  const std::size_t length = std::strlen(name);
  if (directory.size() + length + 2 > path.size()) return {};
  std::memcpy(path.data(), directory.data(), directory.size());
  path[directory.size()] = '/';
  std::memcpy(path.data() + directory.size() + 1, name, length + 1);
  return slurp_into(path.data(), own_buffer());
}

std::optional<std::uint64_t> peek_number(std::string_view directory, const char* name) {
  return to_limit(peek(directory, name));
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
