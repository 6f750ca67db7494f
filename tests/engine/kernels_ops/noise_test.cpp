// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels_ops/support.hpp"

namespace surefit::kernels {
namespace {

using NoiseTest = KernelTest;
INSTANTIATE_TEST_SUITE_P(Isa, NoiseTest, testing::Values("baseline", "avx2"));

TEST_P(NoiseTest, WordsArePhiloxWords) {
  const Philox stream(0x123456789abcdefULL, Purpose::kDropout, 7, 0x500000003ULL, 0x900000001ULL);
  const PhiloxStream key =
      philox_stream(0x123456789abcdefULL, Purpose::kDropout, 7, 0x500000003ULL, 0x900000001ULL);
  for (const std::int64_t begin :
       {0LL, 3LL, 16LL, 17LL, (1LL << 34) - 5}) {  // the last carries into counter word 1
    std::vector<std::uint32_t> words(45);
    k().noise.words(key, begin, begin + 45, words.data());
    for (std::int64_t i = 0; i < 45; ++i)
      ASSERT_EQ(words[i], stream.word(static_cast<std::uint64_t>(begin + i)));
  }
}

TEST_P(NoiseTest, DropoutKeepsByWordAndAnyCutGivesTheSameBits) {
  constexpr std::int64_t kCount = 1003;
  const Floats x = uniform(kCount, 51, 0.5f, 1.5f);
  const Philox stream(5, Purpose::kDropout, 1, 2, 3);
  for (const double rate : {0.0, 0.3, 0.5, 0.999}) {
    Floats y = poison(kCount), cut = poison(kCount);
    DropoutArgs args{.stream = philox_stream(5, Purpose::kDropout, 1, 2, 3),
                     .threshold = dropout_threshold(rate),
                     .scale = static_cast<float>(1 / (1 - rate)),
                     .src = x.data(),
                     .dst = y.data(),
                     .begin = 0,
                     .end = kCount};
    k().noise.dropout(args);
    args.dst = cut.data();
    for (std::int64_t at = 0, size = 1; at < kCount;
         at += size, size = std::min(size + 5, kCount - at)) {
      args.begin = at, args.end = at + size;
      k().noise.dropout(args);
    }
    expect_same_bits(y, cut);
    int kept = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const bool keep = stream.word(i) >= dropout_threshold(rate);
      ASSERT_EQ(y[i], keep ? x[i] * args.scale : 0.0f);
      kept += keep;
    }
    EXPECT_NEAR(kept, (1 - rate) * kCount, 4 * std::sqrt(kCount * rate * (1 - rate)) + 1e-9);
  }
}

TEST_P(NoiseTest, GaussianHasTheRightMomentsAndAnyCutGivesTheSameBits) {
  constexpr std::int64_t kCount = 200000;
  const Floats zero(kCount, 0.0f);
  Floats y = poison(kCount), cut = poison(kCount);
  NoiseArgs args{.stream = philox_stream(5, Purpose::kNoise, 1, 2, 3),
                 .stddev = 2.0f,
                 .src = zero.data(),
                 .dst = y.data(),
                 .begin = 0,
                 .end = kCount};
  k().noise.gaussian(args);
  double sum = 0, squares = 0, fourth = 0, pairs = 0;
  int beyond = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double z = y[i] / 2.0;
    sum += z, squares += z * z, fourth += z * z * z * z, beyond += std::fabs(z) > 1.959964;
    if (i % 2 == 1) pairs += z * y[i - 1] / 2.0;
  }
  const double root = std::sqrt(double{kCount});
  EXPECT_NEAR(sum / kCount, 0, 4 / root);
  EXPECT_NEAR(squares / kCount, 1, 4 * std::sqrt(2.0) / root);
  EXPECT_NEAR(fourth / kCount, 3, 4 * std::sqrt(96.0) / root);
  EXPECT_NEAR(pairs / (kCount / 2), 0, 4 * std::sqrt(2.0) / root);
  EXPECT_NEAR(beyond, 0.05 * kCount, 4 * std::sqrt(0.05 * 0.95 * kCount));
  args.dst = cut.data();
  for (std::int64_t at = 0, size = 1; at < kCount;
       at += size, size = std::min(size * 2 + 3, kCount - at)) {
    args.begin = at, args.end = at + size;
    k().noise.gaussian(args);
  }
  expect_same_bits(y, cut);
}

TEST_P(NoiseTest, GaussianMatchesBoxMullerInDouble) {
  constexpr std::int64_t kCount = 4096;
  const Philox stream(9, Purpose::kNoise, 4, 5, 6);
  const Floats zero(kCount, 0.0f);
  Floats y = poison(kCount);
  k().noise.gaussian({.stream = philox_stream(9, Purpose::kNoise, 4, 5, 6),
                      .stddev = 1.0f,
                      .src = zero.data(),
                      .dst = y.data(),
                      .begin = 0,
                      .end = kCount});
  for (std::uint64_t i = 0; i < kCount; i += 2) {
    const double u = (stream.word(i) >> 8) + 1, t = stream.word(i + 1) >> 8;
    const double radius = std::sqrt(-2 * std::log(u * 0x1p-24)), angle = 2 * M_PI * t * 0x1p-24;
    ASSERT_NEAR(y[i], radius * std::cos(angle), 2e-6);
    ASSERT_NEAR(y[i + 1], radius * std::sin(angle), 2e-6);
  }
}

TEST_P(NoiseTest, GaussianKeepsPaddingZero) {
  const Floats x = random_blocked(1, 3, 9, 52);
  Floats y = poison(72);
  k().noise.gaussian({.stream = philox_stream(1, Purpose::kNoise, 0, 0, 0),
                      .stddev = 1.0f,
                      .src = x.data(),
                      .dst = y.data(),
                      .begin = 0,
                      .end = 72,
                      .live_lanes = 3});
  EXPECT_TRUE(padding_is_zero(y, 1, 3, 9));
}

}  // namespace
}  // namespace surefit::kernels
