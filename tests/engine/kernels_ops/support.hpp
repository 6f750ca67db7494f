// SPDX-License-Identifier: Apache-2.0
// What every kernel test needs: a table per instruction set, reproducible numbers, blocked layouts,
// error measures.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/philox.hpp"
#include "engine/kernels/table.hpp"

namespace surefit::kernels {

class KernelTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    table_ = table_for(GetParam());
    if (table_ == nullptr) GTEST_SKIP() << "this CPU has no " << GetParam();
  }
  const KernelTable& k() const { return *table_; }

 private:
  const KernelTable* table_ = nullptr;
};

using Floats = std::vector<float>;

inline Floats uniform(std::int64_t count, std::uint64_t seed, float low = -1.0f,
                      float high = 1.0f) {
  const Philox stream(seed, Purpose::kTest, 0, 0, 0);
  Floats v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = low + (high - low) * stream.uniform(i);
  return v;
}

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
inline Floats poison(std::int64_t count) {
  return Floats(static_cast<std::size_t>(count), kPoison);
}

inline std::int64_t round_up8(std::int64_t c) {
  return (c + 7) / 8 * 8;
}
// Offset of (channel, pixel) in one sample of nChw8c.
inline std::size_t blocked(std::int64_t channel, std::int64_t pixel, std::int64_t pixels) {
  return static_cast<std::size_t>((channel / 8 * pixels + pixel) * 8 + channel % 8);
}
// Random nChw8c samples with zero padding lanes.
inline Floats random_blocked(std::int64_t samples, std::int64_t channels, std::int64_t pixels,
                             std::uint64_t seed, float low = -1.0f, float high = 1.0f) {
  const std::int64_t sample = round_up8(channels) * pixels;
  Floats v = uniform(samples * sample, seed, low, high);
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t c = channels; c < round_up8(channels); ++c)
      for (std::int64_t p = 0; p < pixels; ++p)
        v[static_cast<std::size_t>(n * sample) + blocked(c, p, pixels)] = 0;
  return v;
}

inline bool padding_is_zero(const Floats& v, std::int64_t samples, std::int64_t channels,
                            std::int64_t pixels) {
  const std::int64_t sample = round_up8(channels) * pixels;
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t c = channels; c < round_up8(channels); ++c)
      for (std::int64_t p = 0; p < pixels; ++p)
        if (v[static_cast<std::size_t>(n * sample) + blocked(c, p, pixels)] != 0.0f) return false;
  return true;
}

// Distance to the exact value in units of the last place of a float near it.
inline double ulps(float got, double want) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : 1e30;
  if (std::isinf(got) || std::fabs(want) > std::numeric_limits<float>::max())
    return static_cast<float>(want) == got ? 0 : 1e30;
  int exponent = 0;
  std::frexp(want, &exponent);
  return std::fabs(got - want) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

inline void expect_same_bits(const Floats& a, const Floats& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint32_t>(a[i]), std::bit_cast<std::uint32_t>(b[i])) << "at " << i;
}

// |got - want| <= bound * scale for every element; `scale` is the sum of magnitudes behind each
// element.
inline void expect_close(const Floats& got, const std::vector<double>& want,
                         const std::vector<double>& scale, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::fabs(got[i] - want[i]), bound * scale[i] + 1e-40)
        << "at " << i << ": " << got[i] << " " << want[i];
}

}  // namespace surefit::kernels
