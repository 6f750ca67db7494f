// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels_ops/support.hpp"

namespace surefit::kernels {
namespace {

using ConvertTest = KernelTest;
INSTANTIATE_TEST_SUITE_P(Isa, ConvertTest, testing::Values("baseline", "avx2"));

double half_value(std::uint16_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const double sign = (h & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST_P(ConvertTest, EveryHalfRoundTrips) {
  std::vector<std::uint16_t> all(65536), back(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  Floats wide = poison(65536);
  k().convert.half_to_float(all.data(), wide.data(), 65536);
  EXPECT_FALSE(k().convert.float_to_half(wide.data(), back.data(), 65536));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double want = half_value(all[i]);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(wide[i]));
      ASSERT_EQ(back[i], all[i] | 0x200);  // quiet
    } else {
      ASSERT_EQ(wide[i], want);
      ASSERT_EQ(back[i], all[i]);
    }
  }
}

// Around every half: just below, at and just above the midpoint to its neighbour.
TEST_P(ConvertTest, HalfRoundsToNearestEven) {
  for (int h = 0; h < 0x7bff; ++h) {
    const double low = half_value(static_cast<std::uint16_t>(h)),
                 high = half_value(static_cast<std::uint16_t>(h + 1));
    const float middle = static_cast<float>((low + high) / 2);
    const float x[] = {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f), -middle};
    std::uint16_t y[4];
    ASSERT_FALSE(k().convert.float_to_half(x, y, 4));
    const int even = h % 2 == 0 ? h : h + 1;
    ASSERT_EQ(y[0], h);
    ASSERT_EQ(y[1], even);
    ASSERT_EQ(y[2], h + 1);
    ASSERT_EQ(y[3], even | 0x8000);
  }
}

TEST_P(ConvertTest, OverflowIsReportedOnlyForFiniteValues) {
  const float inf = std::numeric_limits<float>::infinity();
  Floats x(13, 1.0f);
  std::vector<std::uint16_t> y(13);
  x[3] = inf, x[12] = kPoison, x[5] = std::nextafter(65520.0f, 0.0f);
  EXPECT_FALSE(k().convert.float_to_half(x.data(), y.data(), 13));
  EXPECT_EQ(y[3], 0x7c00);
  EXPECT_EQ(y[5], 0x7bff);
  for (const std::size_t at : {0, 12}) {
    Floats big(13, 1.0f);
    big[at] = -65520.0f;
    EXPECT_TRUE(k().convert.float_to_half(big.data(), y.data(), 13));
    EXPECT_EQ(y[at], 0xfc00);
    EXPECT_FALSE(k().convert.float_to_bfloat(big.data(), y.data(), 13));
    big[at] = std::numeric_limits<float>::max();
    EXPECT_TRUE(k().convert.float_to_bfloat(big.data(), y.data(), 13));
    EXPECT_EQ(y[at], 0x7f80);
  }
}

TEST_P(ConvertTest, BfloatRoundsToNearestEven) {
  const Philox stream(1, Purpose::kTest, 0, 0, 0);
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const std::uint32_t upper = stream.word(i) & 0xffff0000u;
    const float low = std::bit_cast<float>(upper);
    if (std::isnan(low) || std::isinf(low) || std::isinf(std::bit_cast<float>(upper + 0x10000u)))
      continue;
    const float x[] = {low, std::bit_cast<float>(upper | 0x7fffu),
                       std::bit_cast<float>(upper | 0x8000u),
                       std::bit_cast<float>(upper | 0x8001u)};
    std::uint16_t y[4];
    k().convert.float_to_bfloat(x, y, 4);
    const std::uint32_t h = upper >> 16;
    ASSERT_EQ(y[0], h);
    ASSERT_EQ(y[1], h);
    ASSERT_EQ(y[2], h % 2 == 0 ? h : h + 1);
    ASSERT_EQ(y[3], h + 1);
    float back = 0;
    k().convert.bfloat_to_float(y, &back, 1);
    ASSERT_EQ(back, low);
  }
  const float nan = kPoison;
  std::uint16_t y = 0;
  EXPECT_FALSE(k().convert.float_to_bfloat(&nan, &y, 1));
  EXPECT_EQ(y & 0x7fc0, 0x7fc0);
}

TEST(ConvertTables, SameBitsWithAndWithoutHardware) {
  const KernelTable* fast = table_for("avx2");
  if (fast == nullptr) GTEST_SKIP() << "no avx2";
  const Philox stream(2, Purpose::kTest, 0, 0, 0);
  Floats x(1 << 18);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::bit_cast<float>(stream.word(i));
  std::vector<std::uint16_t> a(x.size()), b(x.size());
  const auto n = static_cast<std::int64_t>(x.size());
  EXPECT_EQ(fast->convert.float_to_half(x.data(), a.data(), n),
            table_for("baseline")->convert.float_to_half(x.data(), b.data(), n));
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace surefit::kernels
