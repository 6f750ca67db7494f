// SPDX-License-Identifier: Apache-2.0
#include "guard/proc.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace surefit::guard {
namespace {

ProcBuffer& shared_buffer() {
  static ProcBuffer buffer;  // the guard is single-threaded
  return buffer;
}

std::string_view proc_text(pid_t pid, const char* file) {
  std::array<char, 64> path{};
  fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/{}", pid, file);
  return slurp_into(path.data(), shared_buffer());
}

std::uint64_t to_number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Splits off the next blank-separated word.
std::string_view next_word(std::string_view& text) {
  const std::size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return text = {};
  text.remove_prefix(begin);
  const std::string_view word = text.substr(0, text.find_first_of(" \t\n"));
  text.remove_prefix(word.size());
  return word;
}

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

std::optional<ProcessStat> read_stat(pid_t pid) {
  std::string_view text = proc_text(pid, "stat");
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');  // a name may hold blanks and parentheses itself
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    return std::nullopt;
  ProcessStat stat;
  stat.name = text.substr(open + 1, close - open - 1);
  text.remove_prefix(close + 1);
  std::array<std::string_view, 22> field;
  for (auto& word : field) word = next_word(text);
  if (field[0].empty()) return std::nullopt;
  static const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  stat.state = field[0][0];
  stat.parent = static_cast<pid_t>(to_number(field[1]));
  stat.group = static_cast<pid_t>(to_number(field[2]));
  stat.major_faults = to_number(field[9]);
  stat.cpu_seconds = static_cast<double>(to_number(field[11]) + to_number(field[12])) * tick;
  stat.threads = static_cast<int>(to_number(field[17]));
  stat.start_ticks = to_number(field[19]);
  stat.virtual_bytes = to_number(field[20]);
  stat.rss_bytes = to_number(field[21]) * page_bytes();
  return stat;
}

std::optional<MemoryDetail> read_memory_detail(pid_t pid) {
  const std::string_view text = proc_text(pid, "smaps_rollup");
  const auto pss = number_after(text, "Pss:");
  if (!pss) return std::nullopt;
  const auto bytes = [&](std::string_view key) {
    return number_after(text, key).value_or(0) * 1024;
  };
  return MemoryDetail{*pss * 1024, bytes("Private_Dirty:"), bytes("Anonymous:"), bytes("SwapPss:"),
                      bytes("Pss_Shmem:")};
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  std::array<char, 64> path{};
  fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/task", pid);
  // Children belong to the thread that made them; a process with many threads is asked thread by
  // thread.
  DIR* directory = ::opendir(path.data());
  if (directory == nullptr) return children;
  while (const dirent* entry = ::readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    std::array<char, 96> file{};
    fmt::format_to_n(file.data(), file.size() - 1, "/proc/{}/task/{}/children", pid, entry->d_name);
    std::string_view text = slurp_into(file.data(), shared_buffer());
    for (std::string_view word = next_word(text); !word.empty(); word = next_word(text)) {
      children.push_back(static_cast<pid_t>(to_number(word)));
    }
  }
  ::closedir(directory);
  return children;
}

std::vector<pid_t> tree_of(pid_t root) {
  std::vector<pid_t> tree{root};
  for (std::size_t i = 0; i < tree.size() && tree.size() < 4096; ++i) {
    for (const pid_t child : children_of(tree[i])) tree.push_back(child);
  }
  return tree;
}

int count_fds(pid_t pid) {
  std::array<char, 64> path{};
  fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/fd", pid);
  DIR* directory = ::opendir(path.data());
  if (directory == nullptr) return -1;
  int count = 0;
  while (const dirent* entry = ::readdir(directory)) count += entry->d_name[0] != '.' ? 1 : 0;
  ::closedir(directory);
  return count;
}

std::uint64_t io_bytes(pid_t pid) {
  const std::string_view text = proc_text(pid, "io");
  return number_after(text, "rchar:").value_or(0) + number_after(text, "wchar:").value_or(0);
}

std::string command_line(pid_t pid) {
  std::string text(proc_text(pid, "cmdline"));
  for (char& c : text) {
    if (c == '\0') c = ' ';
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

ProcessLimits read_limits(pid_t pid) {
  const std::string_view text = proc_text(pid, "limits");
  const auto soft = [&](std::string_view key) {
    const std::size_t at = text.find(key);
    if (at == std::string_view::npos) return kNoLimit;
    std::string_view rest = text.substr(at + key.size());
    const std::string_view word = next_word(rest);
    return word == "unlimited" ? kNoLimit : to_number(word);
  };
  return {.address_space = soft("Max address space"),
          .files = soft("Max open files"),
          .processes = soft("Max processes"),
          .stack = soft("Max stack size"),
          .file_size = soft("Max file size"),
          .cpu_seconds = soft("Max cpu time"),
          .data = soft("Max data size")};
}

std::string waiting_for(pid_t pid) {
  if (const auto stat = read_stat(pid); stat && (stat->state == 'T' || stat->state == 't')) {
    return "SIGCONT: it is stopped";
  }
  std::string_view text = proc_text(pid, "syscall");
  if (text.empty() || text.starts_with("running")) return {};
  const std::string_view number_text = next_word(text);
  if (number_text.starts_with("-1")) return "a page fault or signal";
  const auto number = static_cast<long>(to_number(number_text));
  const std::string_view first = next_word(text);
  switch (number) {
    case SYS_read: {
      std::array<char, 256> target{};
      std::array<char, 64> path{};
      fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/fd/{}", pid,
                       std::strtol(first.data(), nullptr, 16));
      if (::readlink(path.data(), target.data(), target.size() - 1) > 0) {
        const std::string_view name = target.data();
        if (name.starts_with("/dev/pts") || name.starts_with("/dev/tty"))
          return "input from the terminal";
        return fmt::format("read of {}", name);
      }
      return "read";
    }
    case SYS_futex:
      return "a lock (futex)";
    case SYS_wait4:
    case SYS_waitid:
      return "a child process";
    case SYS_clock_nanosleep:
#ifdef SYS_nanosleep
    case SYS_nanosleep:
#endif
      return "a timer (sleep)";
#ifdef SYS_poll
    case SYS_poll:
    case SYS_select:
    case SYS_epoll_wait:
#endif
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait:
      return "an event (poll)";
    default:
      return fmt::format("system call {}", number);
  }
}

ArenaCount count_arenas(pid_t pid) {
  ArenaCount count;
  std::array<char, 64> path{};
  fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/smaps", pid);
  std::FILE* file = std::fopen(path.data(), "re");
  if (file == nullptr) return count;
  std::array<char, 512> line{};
  bool in_arena = false;
  while (std::fgets(line.data(), static_cast<int>(line.size()), file) != nullptr) {
    std::uint64_t begin = 0;
    const std::string_view text = line.data();
    const std::size_t dash = text.find('-');
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), begin, 16);
    if (dash != std::string_view::npos && parsed.ptr == text.data() + dash) {
      const bool anonymous = text.find(" 00:00 0 ") != std::string_view::npos &&
                             text.find('[') == std::string_view::npos;
      in_arena = anonymous && begin % (std::uint64_t{64} << 20) == 0 &&
                 text.find(" rw-p ") != std::string_view::npos;
      if (in_arena) ++count.arenas;
    } else if (in_arena && text.starts_with("Rss:")) {
      std::string_view rest = text.substr(4);
      count.resident_bytes += to_number(next_word(rest)) * 1024;
    }
  }
  std::fclose(file);
  return count;
}

}  // namespace surefit::guard
