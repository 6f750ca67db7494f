// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace surefit {

// One anonymous mapping, committed when it is made: under overcommit a successful malloc proves
// nothing, and a death at the first touch would come hours later and without a message.
class Arena {
 public:
  explicit Arena(std::size_t bytes);  // throws SystemError
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // What an arena for this many bytes takes.
  static std::size_t in_pages(std::size_t bytes);

  std::byte* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace surefit
