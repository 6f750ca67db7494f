// SPDX-License-Identifier: Apache-2.0
#include "base/philox.hpp"

#include <gtest/gtest.h>

namespace surefit {
namespace {

// Known answers published with Random123 (kat_vectors, philox4x32 10 rounds).
TEST(Philox, MatchesPublishedVectors) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, 0, 0),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffff, 0xffffffff),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryCoordinateChangesTheStream) {
  const Philox base(1, Purpose::kDropout, 2, 3, 4);
  EXPECT_NE(base.block(0), Philox(2, Purpose::kDropout, 2, 3, 4).block(0));
  EXPECT_NE(base.block(0), Philox(1, Purpose::kNoise, 2, 3, 4).block(0));
  EXPECT_NE(base.block(0), Philox(1, Purpose::kDropout, 3, 3, 4).block(0));
  EXPECT_NE(base.block(0), Philox(1, Purpose::kDropout, 2, 4, 4).block(0));
  EXPECT_NE(base.block(0), Philox(1, Purpose::kDropout, 2, 3, 5).block(0));
  EXPECT_NE(base.block(0), base.block(1));
}

TEST(Philox, UniformHasTheRightMeanAndVariance) {
  const Philox stream(7, Purpose::kTest, 0, 0, 0);
  constexpr int kCount = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double value = stream.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
    squares += value * value;
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 0.5, 0.005);
  EXPECT_NEAR(squares / kCount - mean * mean, 1.0 / 12, 0.002);
}

}  // namespace
}  // namespace surefit
