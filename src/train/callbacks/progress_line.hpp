// SPDX-License-Identifier: Apache-2.0
// Lines of progress, formatted into one fixed buffer: the progress of a step must not allocate.
#pragma once

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <unistd.h>

#include "surefit/callbacks.hpp"

#include "base/process_memory.hpp"

namespace surefit {

class ProgressLine {
 public:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    const std::size_t room = text_.size() - size_;
    const auto result =
        fmt::format_to_n(text_.data() + size_, room, format, std::forward<Args>(args)...);
    size_ += std::min(result.size, room);
  }
  void add_logs(const Logs& logs) {
    for (const auto& [name, value] : logs) add(" - {}: {:.4f}", name, value);
  }
  // Only where it matters: most networks train slower than their data come.
  void add_input(const TrainState& state) {
    if (state.input_share() > 0.01) add(" - input {:.0f}%", state.input_share() * 100);
    if (state.input_stall() > 0.01) add(" (stall {:.0f}%)", state.input_stall() * 100);
  }
  void add_memory() {
    add(" - {:.0f} MiB", static_cast<double>(read_process_memory().resident_bytes) / 0x1p20);
  }
  std::size_t size() const { return size_; }
  void clear() { size_ = 0; }
  void truncate(std::size_t size) { size_ = std::min(size_, size); }
  void write(int fd) const {
    std::size_t done = 0;
    while (done < size_) {
      const ssize_t put = ::write(fd, text_.data() + done, size_ - done);
      if (put <= 0) return;
      done += static_cast<std::size_t>(put);
    }
  }

 private:
  std::array<char, 2048> text_{};

  std::size_t size_ = 0;
};

}  // namespace surefit
