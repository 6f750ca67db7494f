// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels_ops/support.hpp"

namespace surefit::kernels {
namespace {

using LossTest = KernelTest;
INSTANTIATE_TEST_SUITE_P(Isa, LossTest, testing::Values("baseline", "avx2"));

constexpr std::int64_t kClasses[] = {1, 2, 3, 8, 10, 13, 64, 1000};
constexpr std::int64_t kSamples = 5;

std::vector<double> softmax_reference(const float* x, std::int64_t classes) {
  double top = x[0], sum = 0;
  for (std::int64_t c = 1; c < classes; ++c) top = std::max(top, double{x[c]});
  std::vector<double> p(static_cast<std::size_t>(classes));
  for (std::int64_t c = 0; c < classes; ++c) sum += p[c] = std::exp(x[c] - top);
  for (double& v : p) v /= sum;
  return p;
}

Floats soft_targets(std::int64_t classes) {
  Floats t = uniform(kSamples * classes, 9, 0.0f, 1.0f);
  for (std::int64_t n = 0; n < kSamples; ++n) {
    float sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) sum += t[n * classes + c];
    for (std::int64_t c = 0; c < classes; ++c) t[n * classes + c] /= sum;
  }
  return t;
}

TEST_P(LossTest, SoftmaxForwardAndBackward) {
  for (const std::int64_t classes : kClasses) {
    const Floats x = uniform(kSamples * classes, 1, -30, 30), dy = uniform(kSamples * classes, 2);
    Floats y = poison(kSamples * classes), dx = y;
    k().loss.softmax({.src = x.data(),
                      .src_stride = classes,
                      .dst = y.data(),
                      .dst_stride = classes,
                      .classes = classes,
                      .sample_begin = 0,
                      .sample_end = kSamples});
    k().loss.softmax_backward({.dst = y.data(),
                               .dst_stride = classes,
                               .diff_dst = dy.data(),
                               .diff_dst_stride = classes,
                               .diff_src = dx.data(),
                               .diff_src_stride = classes,
                               .classes = classes,
                               .sample_begin = 0,
                               .sample_end = kSamples});
    for (std::int64_t n = 0; n < kSamples; ++n) {
      const auto p = softmax_reference(x.data() + n * classes, classes);
      double dot = 0, scale = 0;
      for (std::int64_t c = 0; c < classes; ++c) {
        dot += p[c] * dy[n * classes + c];
        scale += p[c] * std::fabs(dy[n * classes + c]);
      }
      for (std::int64_t c = 0; c < classes; ++c) {
        // x - max is rounded to 2^-24 * 60 in the exponent, which is the bound here, not the
        // polynomial.
        ASSERT_LE(std::fabs(y[n * classes + c] - p[c]), 5e-6 * p[c] + 1e-44);
        ASSERT_LE(std::fabs(dx[n * classes + c] - p[c] * (dy[n * classes + c] - dot)),
                  2e-5 * p[c] * (std::fabs(dy[n * classes + c]) + scale) + 1e-44);
      }
    }
  }
}

TEST_P(LossTest, CrossEntropyFromLogits) {
  for (const std::int64_t classes : kClasses) {
    const Floats x = uniform(kSamples * classes, 3, -20, 20), t = soft_targets(classes);
    const Floats weights = uniform(kSamples, 4, 0.5f, 2.0f);
    std::vector<std::int32_t> labels;
    for (std::int64_t n = 0; n < kSamples; ++n)
      labels.push_back(static_cast<std::int32_t>(n * 7 % classes));
    for (const bool sparse : {true, false}) {
      std::vector<double> loss(kSamples, -1);
      Floats dx = poison(kSamples * classes);
      const CrossEntropyArgs args{.src = x.data(),
                                  .src_stride = classes,
                                  .labels = sparse ? labels.data() : nullptr,
                                  .targets = sparse ? nullptr : t.data(),
                                  .targets_stride = classes,
                                  .weights = weights.data(),
                                  .weight = 0.25f,
                                  .loss = loss.data(),
                                  .diff_src = dx.data(),
                                  .diff_src_stride = classes,
                                  .classes = classes,
                                  .sample_begin = 0,
                                  .sample_end = kSamples};
      k().loss.softmax_cross_entropy(args);
      for (std::int64_t n = 0; n < kSamples; ++n) {
        const auto p = softmax_reference(x.data() + n * classes, classes);
        double want = 0, mass = 0;
        for (std::int64_t c = 0; c < classes; ++c) {
          const double target = sparse ? (c == labels[n]) : t[n * classes + c];
          want -= target * std::log(p[c]);
          mass += target;
        }
        ASSERT_NEAR(loss[n], want, 3e-6 * (1 + std::fabs(want)));
        for (std::int64_t c = 0; c < classes; ++c) {
          const double target = sparse ? (c == labels[n]) : t[n * classes + c];
          ASSERT_NEAR(dx[n * classes + c], (p[c] * mass - target) * 0.25 * weights[n], 2e-6);
        }
      }
      // In place, one sample at a time: same bits.
      Floats in_place = x;
      std::vector<double> again(kSamples, -1);
      for (std::int64_t n = kSamples - 1; n >= 0; --n) {
        CrossEntropyArgs one = args;
        one.src = in_place.data(), one.diff_src = in_place.data(), one.loss = again.data();
        one.sample_begin = n, one.sample_end = n + 1;
        k().loss.softmax_cross_entropy(one);
      }
      expect_same_bits(in_place, dx);
      EXPECT_EQ(again, loss);
    }
  }
}

TEST_P(LossTest, BadLabelAndNanLogitAreVisible) {
  Floats x = uniform(30, 5), dx = poison(30);
  x[21] = kPoison;
  const std::int32_t labels[] = {10, -1, 3};
  std::vector<double> loss(3);
  k().loss.softmax_cross_entropy({.src = x.data(),
                                  .src_stride = 10,
                                  .labels = labels,
                                  .loss = loss.data(),
                                  .diff_src = dx.data(),
                                  .diff_src_stride = 10,
                                  .classes = 10,
                                  .sample_begin = 0,
                                  .sample_end = 3});
  for (const double v : loss) EXPECT_TRUE(std::isnan(v));
  for (const float v : dx) EXPECT_TRUE(std::isnan(v));
}

TEST_P(LossTest, CrossEntropyOnProbabilitiesClipsAsKeras) {
  for (const std::int64_t classes : {std::int64_t{2}, std::int64_t{10}, std::int64_t{13}}) {
    Floats p = uniform(kSamples * classes, 6, 0.0f, 1.0f);
    p[0] = 0.0f;  // clipped from below in sample 0
    for (std::int64_t c = 0; c < classes; ++c)
      p[classes + c] = c == 1 ? 1.0f : 0.0f;  // from above in sample 1
    const std::int32_t labels[kSamples] = {0, 1, 1, 0, 1};
    std::vector<double> loss(kSamples);
    Floats dp = poison(kSamples * classes);
    k().loss.cross_entropy_probabilities({.src = p.data(),
                                          .src_stride = classes,
                                          .labels = labels,
                                          .weight = 0.5f,
                                          .loss = loss.data(),
                                          .diff_src = dp.data(),
                                          .diff_src_stride = classes,
                                          .classes = classes,
                                          .sample_begin = 0,
                                          .sample_end = kSamples});
    const auto value = [&](std::int64_t n, const std::vector<double>& row) {
      double sum = 0;
      for (const double v : row) sum += v;
      // 1 - 1e-7 in float32, as Keras has it.
      return -std::log(std::min(std::max(row[labels[n]] / sum, 1e-7), 1 - 0x1p-23));
    };
    for (std::int64_t n = 0; n < kSamples; ++n) {
      std::vector<double> row(p.begin() + n * classes, p.begin() + (n + 1) * classes);
      ASSERT_NEAR(loss[n], value(n, row), 1e-12);
      for (std::int64_t c = 0; c < classes; ++c) {
        if (n < 2) {
          ASSERT_EQ(dp[n * classes + c], 0.0f);  // clipped: no gradient
          continue;
        }
        std::vector<double> up = row, down = row;
        up[c] += 1e-6, down[c] -= 1e-6;
        ASSERT_NEAR(dp[n * classes + c], 0.5 * (value(n, up) - value(n, down)) / 2e-6,
                    1e-5 * (1 + std::fabs(dp[n * classes + c])));
      }
    }
  }
}

}  // namespace
}  // namespace surefit::kernels
