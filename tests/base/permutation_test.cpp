// SPDX-License-Identifier: Apache-2.0
#include "base/permutation.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace surefit {
namespace {

TEST(Permutation, IsABijectionForManySizes) {
  for (std::uint64_t count : {1, 2, 3, 4, 5, 7, 16, 17, 100, 1000, 4096, 60000}) {
    const Permutation order(count, 42, 3);
    std::vector<bool> seen(count, false);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t image = order(i);
      ASSERT_LT(image, count);
      ASSERT_FALSE(seen[image]) << "size " << count << " hits " << image << " twice";
      seen[image] = true;
    }
  }
}

// All 120 orders of five must come out about equally often over seeds: chi-square with 119 degrees of freedom stays
// below 193 with probability 0.99999; a biased shuffle is far above.
TEST(Permutation, OrdersOfFiveAreUniformOverSeeds) {
  constexpr int kSeeds = 24000;
  std::map<std::vector<std::uint64_t>, int> counts;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const Permutation order(5, static_cast<std::uint64_t>(seed), 0);
    counts[{order(0), order(1), order(2), order(3), order(4)}]++;
  }
  EXPECT_EQ(counts.size(), 120u);
  double chi_square = 0;
  for (const auto& [order, count] : counts) {
    chi_square += (count - kSeeds / 120.0) * (count - kSeeds / 120.0) / (kSeeds / 120.0);
  }
  EXPECT_LT(chi_square, 193.0) << chi_square;
}

TEST(Permutation, EpochsDiffer) {
  const Permutation first(1000, 1, 0), second(1000, 1, 1);
  int same = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) same += first(i) == second(i);
  EXPECT_LT(same, 20);
}

}  // namespace
}  // namespace surefit
