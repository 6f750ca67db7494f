// SPDX-License-Identifier: Apache-2.0
#include "base/permutation.hpp"

#include <bit>
#include <utility>

#include "base/check.hpp"
#include "base/philox.hpp"

namespace surefit {

Permutation::Permutation(std::uint64_t count, std::uint64_t seed, std::uint64_t epoch)
    : count_(count), seed_(seed), epoch_(epoch) {
  if (count <= table_.size()) {
    // A Feistel network only makes even permutations, which shows in small ranges (chi-square over
    // the orders of five: 305, limit 193). There a shuffled table is exact and just as small.
    const Philox stream(seed, Purpose::kShuffle, 0, epoch, 0);
    for (std::uint64_t i = 0; i < count; ++i) table_[i] = static_cast<std::uint8_t>(i);
    for (std::uint64_t i = count; i > 1; --i) {
      std::swap(table_[i - 1], table_[(std::uint64_t{stream.word(i)} * i) >> 32]);
    }
  } else {
    half_bits_ = static_cast<unsigned>(std::bit_width(count - 1) + 1) / 2;
  }
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  SUREFIT_CHECK(index < count_, "permutation index {} of {}", index, count_);
  if (count_ <= table_.size()) return table_[index];
  constexpr std::uint32_t kRounds = 8;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = index >> half_bits_, right = index & mask;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const Philox stream(seed_, Purpose::kShuffle, round, epoch_, right);
      const std::uint64_t next = left ^ (stream.block(0)[0] & mask);
      left = right;
      right = next;
    }
    index = (left << half_bits_) | right;
  } while (index >= count_);
  return index;
}

}  // namespace surefit
