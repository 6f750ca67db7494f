// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace surefit {

// A keyed bijection on [0, count): a perfect shuffle in O(1) memory. A Feistel network over the
// next even power of two, walking cycles until the image falls inside the range (fewer than four
// steps on average); small ranges are a shuffled table.
class Permutation {
 public:
  Permutation(std::uint64_t count, std::uint64_t seed, std::uint64_t epoch);
  std::uint64_t operator()(std::uint64_t index) const;  // index < count
  std::uint64_t count() const { return count_; }

 private:
  std::uint64_t count_;
  unsigned half_bits_ = 0;
  std::uint64_t seed_, epoch_;
  std::array<std::uint8_t, 256> table_{};
};

}  // namespace surefit
