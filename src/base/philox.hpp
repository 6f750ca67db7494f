// SPDX-License-Identifier: Apache-2.0
// Counter-based randomness: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1,
// 2, 3", SC'11). A number is a pure function of its key and counter, so nobody keeps generator
// state: the same bits under any thread count, recompute or resume.
#pragma once

#include <array>
#include <cstdint>

namespace surefit {

enum class Purpose : std::uint32_t {
  kInit = 1,
  kDropout = 2,
  kShuffle = 3,
  kAugment = 4,
  kNoise = 5,
  kTest = 6
};

using PhiloxBlock = std::array<std::uint32_t, 4>;

constexpr PhiloxBlock philox4x32_10(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0,
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1,
               static_cast<std::uint32_t>(product0)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// The random stream of one (seed, purpose, layer, step, sample); `block(i)` gives its i-th four
// words.
class Philox {
 public:
  constexpr Philox(std::uint64_t seed, Purpose purpose, std::uint32_t layer, std::uint64_t step,
                   std::uint64_t sample) {
    // Two rounds of mixing fold the wide coordinates into a 64-bit key and the upper counter words.
    const PhiloxBlock mixed =
        philox4x32_10({static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32),
                       static_cast<std::uint32_t>(purpose), layer},
                      static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
    key0_ = mixed[0];
    key1_ = mixed[1];
    high0_ = static_cast<std::uint32_t>(sample) ^ mixed[2];
    high1_ = static_cast<std::uint32_t>(sample >> 32) ^ mixed[3];
  }

  constexpr PhiloxBlock block(std::uint64_t index) const {
    return philox4x32_10({static_cast<std::uint32_t>(index),
                          static_cast<std::uint32_t>(index >> 32), high0_, high1_},
                         key0_, key1_);
  }
  constexpr std::uint32_t word(std::uint64_t index) const { return block(index / 4)[index % 4]; }
  // Uniform in [0, 1) with 24 bits, exactly representable.
  constexpr float uniform(std::uint64_t index) const {
    return static_cast<float>(word(index) >> 8) * 0x1p-24f;
  }

 private:
  std::uint32_t key0_ = 0, key1_ = 0, high0_ = 0, high1_ = 0;
};

}  // namespace surefit
