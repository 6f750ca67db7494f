// SPDX-License-Identifier: Apache-2.0
#include "base/units.hpp"

#include <gtest/gtest.h>

#include "surefit/error.hpp"

namespace surefit {
namespace {

TEST(Units, ParsesSizes) {
  EXPECT_EQ(parse_bytes("4096", "x"), 4096u);
  EXPECT_EQ(parse_bytes("512M", "x"), 512u << 20);
  EXPECT_EQ(parse_bytes("1.5G", "x"), (std::uint64_t{3} << 30) / 2);
  EXPECT_EQ(parse_bytes("300MiB", "x"), 300u << 20);
}

TEST(Units, RefusesNonsenseSizes) {
  for (const char* bad : {"", "-1", "-5M", "12Q", "M", "1e999G", "99999999999G", "5 M", "nan", "inf"}) {
    EXPECT_THROW(parse_bytes(bad, "--memory"), ConfigError) << bad;
  }
}

TEST(Units, ParsesDurations) {
  EXPECT_DOUBLE_EQ(parse_duration("90s", "x"), 90);
  EXPECT_DOUBLE_EQ(parse_duration("11h50m", "x"), 11 * 3600 + 50 * 60);
  EXPECT_DOUBLE_EQ(parse_duration("250ms", "x"), 0.25);
  for (const char* bad : {"", "h", "5x", "-3s", "1h-2m"}) {
    EXPECT_THROW(parse_duration(bad, "--deadline"), ConfigError) << bad;
  }
}

TEST(Units, FormatsForPeople) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(std::uint64_t{1300} << 20), "1.27 GiB");
  EXPECT_EQ(format_duration(3783), "1h 03m");
  EXPECT_EQ(format_duration(1.25), "1.2s");
}

}  // namespace
}  // namespace surefit
