// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace surefit {

// A block of memory needed during [first, last].
struct PackItem {
  std::size_t bytes = 0;
  int first = 0, last = 0;
  std::size_t offset = 0;  // result
};

inline constexpr std::size_t kBufferAlignment = 64;

// Assigns offsets so that items alive at the same time do not overlap, and returns the size of the
// arena. Tries a portfolio of greedy orders and then a short deterministic hill-climb; stops when
// the lower bound is reached.
std::size_t pack(std::vector<PackItem>& items);

// The most bytes alive at any one time (aligned sizes): no packing can be smaller. `when` receives
// the moment.
std::size_t max_live(const std::vector<PackItem>& items, int* when = nullptr);

}  // namespace surefit
