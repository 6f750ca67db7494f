// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels_ops/support.hpp"

namespace surefit::kernels {
namespace {

using BatchNormTest = KernelTest;
INSTANTIATE_TEST_SUITE_P(Isa, BatchNormTest, testing::Values("baseline", "avx2"));

constexpr float kEpsilon = 1e-3f;

struct Problem {
  std::int64_t channels, pixels, samples, c8, sample, blocks;
  Floats x, residual, dy, gamma, beta;
};

Problem make(std::int64_t channels, std::int64_t pixels, std::int64_t samples, float offset) {
  Problem p{channels,
            pixels,
            samples,
            round_up8(channels),
            round_up8(channels) * pixels,
            round_up8(channels) / 8,
            {},
            {},
            {},
            {},
            {}};
  p.x = random_blocked(samples, channels, pixels, 31, offset - 1, offset + 1);
  p.residual = random_blocked(samples, channels, pixels, 32);
  p.dy = random_blocked(samples, channels, pixels, 33);
  p.gamma = uniform(channels, 34, 0.5f, 1.5f);
  p.beta = uniform(channels, 35);
  return p;
}

struct Result {
  Floats mean, inv_std, moving_mean, moving_variance, y, dx, dres, dgamma, dbeta;
};

// All parts, over pieces of `step` samples and single blocks if `cut`.
Result run(const KernelTable& k, const Problem& p, bool residual, Activation activation,
           std::int64_t step, bool cut) {
  Result r{poison(p.c8),
           poison(p.c8),
           Floats(p.channels, 0.5f),
           Floats(p.channels, 2.0f),
           poison(p.samples * p.sample),
           poison(p.samples * p.sample),
           poison(p.samples * p.sample),
           poison(p.channels),
           poison(p.channels)};
  std::vector<double> partials(static_cast<std::size_t>(p.samples * 2 * p.c8), std::nan(""));
  Floats mean_dy = poison(p.c8), mean_dy_xhat = poison(p.c8);
  const auto pieces = [&](auto args, auto kernel) {
    for (std::int64_t n = 0; n < p.samples; n += step)
      for (std::int64_t b = 0; b < p.blocks; b += cut ? 1 : p.blocks) {
        args.sample_begin = n, args.sample_end = std::min(n + step, p.samples);
        args.block_begin = b, args.block_end = cut ? b + 1 : p.blocks;
        kernel(args);
      }
  };
  const BatchNormKernels& bn = k.batch_norm;
  pieces(BatchNormStatsArgs{.channels = p.channels,
                            .pixels = p.pixels,
                            .src = p.x.data(),
                            .src_stride = p.sample,
                            .partials = partials.data()},
         bn.stats);
  bn.combine({.channels = p.channels,
              .pixels = p.pixels,
              .samples = p.samples,
              .partials = partials.data(),
              .epsilon = kEpsilon,
              .mean = r.mean.data(),
              .inv_std = r.inv_std.data(),
              .moving_mean = r.moving_mean.data(),
              .moving_variance = r.moving_variance.data(),
              .momentum = 0.9f});
  pieces(BatchNormApplyArgs{.channels = p.channels,
                            .pixels = p.pixels,
                            .src = p.x.data(),
                            .src_stride = p.sample,
                            .mean = r.mean.data(),
                            .inv_std = r.inv_std.data(),
                            .gamma = p.gamma.data(),
                            .beta = p.beta.data(),
                            .residual = residual ? p.residual.data() : nullptr,
                            .residual_stride = p.sample,
                            .activation = activation,
                            .dst = r.y.data(),
                            .dst_stride = p.sample},
         bn.apply);
  const float* y = r.y.data();
  pieces(BatchNormBackwardStatsArgs{.channels = p.channels,
                                    .pixels = p.pixels,
                                    .src = p.x.data(),
                                    .src_stride = p.sample,
                                    .diff_dst = p.dy.data(),
                                    .diff_dst_stride = p.sample,
                                    .activation = activation,
                                    .dst = y,
                                    .dst_stride = p.sample,
                                    .mean = r.mean.data(),
                                    .inv_std = r.inv_std.data(),
                                    .partials = partials.data()},
         bn.backward_stats);
  bn.backward_combine({.channels = p.channels,
                       .pixels = p.pixels,
                       .samples = p.samples,
                       .partials = partials.data(),
                       .diff_gamma = r.dgamma.data(),
                       .diff_beta = r.dbeta.data(),
                       .mean_dy = mean_dy.data(),
                       .mean_dy_xhat = mean_dy_xhat.data()});
  pieces(BatchNormBackwardApplyArgs{.channels = p.channels,
                                    .pixels = p.pixels,
                                    .src = p.x.data(),
                                    .src_stride = p.sample,
                                    .diff_dst = p.dy.data(),
                                    .diff_dst_stride = p.sample,
                                    .activation = activation,
                                    .dst = y,
                                    .dst_stride = p.sample,
                                    .mean = r.mean.data(),
                                    .inv_std = r.inv_std.data(),
                                    .gamma = p.gamma.data(),
                                    .mean_dy = mean_dy.data(),
                                    .mean_dy_xhat = mean_dy_xhat.data(),
                                    .diff_src = r.dx.data(),
                                    .diff_src_stride = p.sample,
                                    .diff_residual = r.dres.data(),
                                    .diff_residual_stride = p.sample},
         bn.backward_apply);
  return r;
}

void check(const Problem& p, const Result& r, bool residual, Activation activation, double offset) {
  const std::int64_t total = p.samples * p.pixels;
  const double count = static_cast<double>(total);
  // One rounding of the mean costs eps * |mean| / std in y; everything else a few eps.
  const double eps = 0x1p-24 * (8 + 4 * std::fabs(offset));
  for (std::int64_t c = 0; c < p.channels; ++c) {
    const auto at = [&](std::int64_t i) {
      return i / p.pixels * p.sample + blocked(c, i % p.pixels, p.pixels);
    };
    double mean = 0, variance = 0, dbeta = 0, dgamma = 0;
    for (std::int64_t i = 0; i < total; ++i) mean += p.x[at(i)] / count;
    for (std::int64_t i = 0; i < total; ++i)
      variance += (p.x[at(i)] - mean) * (p.x[at(i)] - mean) / count;
    const double inv = 1 / std::sqrt(variance + kEpsilon);
    ASSERT_LE(ulps(r.mean[c], mean), 0.51);
    ASSERT_LE(ulps(r.inv_std[c], inv), 0.6);
    ASSERT_LE(ulps(r.moving_mean[c], 0.5 * double{0.9f} + mean * (1 - double{0.9f})), 0.6);
    ASSERT_LE(ulps(r.moving_variance[c], 2.0 * double{0.9f} + variance * (1 - double{0.9f})), 0.6);
    for (std::int64_t i = 0; i < total; ++i) {
      const double hat = (p.x[at(i)] - mean) * inv;
      double want = hat * p.gamma[c] + p.beta[c] + (residual ? p.residual[at(i)] : 0.0f);
      if (activation != Activation::kLinear) want = std::max(want, 0.0);
      if (activation == Activation::kRelu6) want = std::min(want, 6.0);
      ASSERT_LE(std::fabs(r.y[at(i)] - want), eps * (2 + std::fabs(hat)) * inv);
      const bool cut = activation != Activation::kLinear &&
                       (r.y[at(i)] <= 0 || (activation == Activation::kRelu6 && r.y[at(i)] >= 6));
      const double d = cut ? 0.0 : p.dy[at(i)];
      ASSERT_EQ(r.dres[at(i)], d);
      dbeta += d, dgamma += d * hat;
    }
    ASSERT_NEAR(r.dbeta[c], dbeta, 1e-6 * (1 + std::fabs(dbeta)));
    ASSERT_NEAR(r.dgamma[c], dgamma, 1e-6 * (1 + std::fabs(dgamma)) + eps * count * inv);
    for (std::int64_t i = 0; i < total; ++i) {
      const double hat = (p.x[at(i)] - mean) * inv, d = r.dres[at(i)];
      const double want = p.gamma[c] * inv * (d - dbeta / count - hat * dgamma / count);
      ASSERT_NEAR(r.dx[at(i)], want, 2 * eps * inv * (2 + std::fabs(hat)) * (1 + inv));
    }
  }
  EXPECT_TRUE(padding_is_zero(r.y, p.samples, p.channels, p.pixels));
  EXPECT_TRUE(padding_is_zero(r.dx, p.samples, p.channels, p.pixels));
  EXPECT_TRUE(padding_is_zero(r.dres, p.samples, p.channels, p.pixels));
}

TEST_P(BatchNormTest, MatchesDoubleAndAnySplitGivesTheSameBits) {
  for (const std::int64_t channels : {1, 3, 8, 13, 64}) {
    for (const std::int64_t pixels : {1, 9, 35}) {
      for (const float offset : {0.0f, 100.0f}) {  // a mean far from 0 must not eat the variance
        const Problem p = make(channels, pixels, 5, offset);
        for (const bool residual : {false, true})
          for (const Activation activation :
               {Activation::kLinear, Activation::kRelu, Activation::kRelu6}) {
            const Result whole = run(k(), p, residual, activation, 5, false),
                         cut = run(k(), p, residual, activation, 2, true);
            check(p, whole, residual, activation, offset);
            expect_same_bits(whole.y, cut.y);
            expect_same_bits(whole.dx, cut.dx);
            expect_same_bits(whole.dgamma, cut.dgamma);
            expect_same_bits(whole.moving_variance, cut.moving_variance);
            if (HasFatalFailure()) return;
          }
      }
    }
  }
}

TEST_P(BatchNormTest, InferenceUsesMovingStatisticsAndFrozenBackwardHasNoBatchTerms) {
  const Problem p = make(13, 9, 2, 0);
  const Floats moving_mean = uniform(13, 36), moving_variance = uniform(13, 37, 0.1f, 2);
  Floats mean = poison(16), inv_std = poison(16), y = poison(2 * p.sample), dx = y;
  k().batch_norm.from_moving(13, moving_mean.data(), moving_variance.data(), kEpsilon, mean.data(),
                             inv_std.data());
  k().batch_norm.apply({.channels = 13,
                        .pixels = 9,
                        .src = p.x.data(),
                        .src_stride = p.sample,
                        .mean = mean.data(),
                        .inv_std = inv_std.data(),
                        .gamma = p.gamma.data(),
                        .beta = p.beta.data(),
                        .dst = y.data(),
                        .dst_stride = p.sample,
                        .sample_begin = 0,
                        .sample_end = 2,
                        .block_begin = 0,
                        .block_end = 2});
  k().batch_norm.backward_apply({.channels = 13,
                                 .pixels = 9,
                                 .diff_dst = p.dy.data(),
                                 .diff_dst_stride = p.sample,
                                 .mean = mean.data(),
                                 .inv_std = inv_std.data(),
                                 .gamma = p.gamma.data(),
                                 .diff_src = dx.data(),
                                 .diff_src_stride = p.sample,
                                 .sample_begin = 0,
                                 .sample_end = 2,
                                 .block_begin = 0,
                                 .block_end = 2});
  for (std::int64_t c = 0; c < 13; ++c) {
    const double inv = 1 / std::sqrt(moving_variance[c] + double{kEpsilon});
    for (std::int64_t i = 0; i < 9; ++i) {
      const std::size_t at = blocked(c, i, 9);
      ASSERT_NEAR(y[at], (p.x[at] - moving_mean[c]) * inv * p.gamma[c] + p.beta[c], 2e-6);
      ASSERT_NEAR(dx[at], p.dy[at] * inv * p.gamma[c], 1e-6);
    }
  }
  EXPECT_TRUE(padding_is_zero(y, 2, 13, 9));
  EXPECT_TRUE(padding_is_zero(dx, 2, 13, 9));
}

}  // namespace
}  // namespace surefit::kernels
