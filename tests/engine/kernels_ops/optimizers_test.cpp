// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels_ops/support.hpp"

namespace surefit::kernels {
namespace {

using OptimizersTest = KernelTest;
INSTANTIATE_TEST_SUITE_P(Isa, OptimizersTest, testing::Values("baseline", "avx2"));

constexpr std::int64_t kCount = 103;

// Runs step(offset, count, t) over the whole range and over pieces; state arrays must end in the
// same bits.
template <class Step>
void expect_cut_same(std::vector<Floats>& whole, Step step) {
  std::vector<Floats> cut = whole;
  for (int t = 1; t <= 3; ++t) {
    step(whole, std::int64_t{0}, kCount, t);
    for (std::int64_t at = 0, size = 1; at < kCount;
         at += size, size = std::min(size + 4, kCount - at))
      step(cut, at, size, t);
  }
  for (std::size_t i = 0; i < whole.size(); ++i) expect_same_bits(whole[i], cut[i]);
}

Floats gradient(int t) {
  return uniform(kCount, 40 + static_cast<std::uint64_t>(t));
}

TEST_P(OptimizersTest, SgdAsKeras) {
  for (const float momentum : {0.0f, 0.9f}) {
    for (const bool nesterov : {false, true}) {
      for (const float decay : {0.0f, 0.1f}) {
        std::vector<Floats> state = {uniform(kCount, 1), Floats(kCount, 0.0f)};
        std::vector<double> w(state[0].begin(), state[0].end()), v(kCount, 0.0);
        expect_cut_same(state, [&](std::vector<Floats>& s, std::int64_t at, std::int64_t n, int t) {
          const Floats g = gradient(t);
          k().optimizers.sgd({.weights = s[0].data() + at,
                              .gradient = g.data() + at,
                              .velocity = momentum == 0.0f ? nullptr : s[1].data() + at,
                              .count = n,
                              .lr = 0.05f,
                              .momentum = momentum,
                              .nesterov = nesterov,
                              .weight_decay = decay,
                              .grad_scale = 0.5f});
        });
        for (int t = 1; t <= 3; ++t)
          for (std::size_t i = 0; i < w.size(); ++i) {
            const double g = 0.5 * gradient(t)[i], lr = double{0.05f}, mu = momentum;
            w[i] -= w[i] * lr * decay;
            v[i] = mu * v[i] - lr * g;
            w[i] += nesterov && momentum > 0 ? mu * v[i] - lr * g : v[i];
          }
        for (std::size_t i = 0; i < w.size(); ++i) ASSERT_NEAR(state[0][i], w[i], 3e-7);
      }
    }
  }
}

TEST_P(OptimizersTest, AdamAsKeras) {
  for (const bool amsgrad : {false, true}) {
    for (const float decay : {0.0f, 0.1f}) {
      std::vector<Floats> state = {uniform(kCount, 2), Floats(kCount, 0.0f), Floats(kCount, 0.0f),
                                   Floats(kCount, 0.0f)};
      std::vector<double> w(state[0].begin(), state[0].end()), m(kCount), v(kCount), top(kCount);
      expect_cut_same(state, [&](std::vector<Floats>& s, std::int64_t at, std::int64_t n, int t) {
        const Floats g = gradient(t);
        k().optimizers.adam({.weights = s[0].data() + at,
                             .gradient = g.data() + at,
                             .m = s[1].data() + at,
                             .v = s[2].data() + at,
                             .v_max = amsgrad ? s[3].data() + at : nullptr,
                             .count = n,
                             .alpha = adam_alpha(0.01, 0.9, 0.999, t),
                             .lr = 0.01f,
                             .weight_decay = decay});
      });
      for (int t = 1; t <= 3; ++t)
        for (std::size_t i = 0; i < w.size(); ++i) {
          const double g = gradient(t)[i], b1 = double{0.9f}, b2 = double{0.999f};
          const double alpha = 0.01 * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
          w[i] -= w[i] * double{0.01f} * decay;
          m[i] += (g - m[i]) * (1 - b1);
          v[i] += (g * g - v[i]) * (1 - b2);
          top[i] = std::max(top[i], v[i]);
          w[i] -= m[i] * alpha / (std::sqrt(amsgrad ? top[i] : v[i]) + double{1e-7f});
        }
      for (std::size_t i = 0; i < w.size(); ++i) ASSERT_NEAR(state[0][i], w[i], 4e-7);
    }
  }
}

TEST(Optimizers, Avx512GivesTheBitsOfAvx2) {
  const KernelTable* wide = table_for("avx512");
  if (wide == nullptr) GTEST_SKIP() << "no AVX-512 here";
  const OptimizerKernels &avx2 = table_for("avx2")->optimizers, &avx512 = wide->optimizers;
  EXPECT_NE(avx512.adam, avx2.adam);
  for (const std::int64_t n : {kCount, kCount - 5, std::int64_t{16}, std::int64_t{25}}) {
    const std::vector<Floats> start = {uniform(kCount, 1), uniform(kCount, 2),
                                       uniform(kCount, 3, 0.0f), uniform(kCount, 4, 0.0f)};
    const auto expect_same = [&](const auto& step) {
      std::vector<Floats> narrow = start, broad = start;
      step(avx2, narrow);
      step(avx512, broad);
      EXPECT_NE(broad[0], start[0]);
      for (std::size_t i = 0; i < start.size(); ++i) expect_same_bits(broad[i], narrow[i]);
    };
    const Floats g = gradient(1);
    for (const int kind : {0, 1, 2}) {
      expect_same([&](const OptimizerKernels& kernels, std::vector<Floats>& s) {
        kernels.sgd({.weights = s[0].data(),
                     .gradient = g.data(),
                     .velocity = kind == 0 ? nullptr : s[1].data(),
                     .count = n,
                     .momentum = 0.9f,
                     .nesterov = kind == 2,
                     .weight_decay = 0.1f,
                     .grad_scale = 0.7f});
      });
    }
    for (const bool amsgrad : {false, true}) {
      expect_same([&](const OptimizerKernels& kernels, std::vector<Floats>& s) {
        kernels.adam({.weights = s[0].data(),
                      .gradient = g.data(),
                      .m = s[1].data(),
                      .v = s[2].data(),
                      .v_max = amsgrad ? s[3].data() : nullptr,
                      .count = n,
                      .alpha = 1e-2f,
                      .weight_decay = 0.1f,
                      .grad_scale = 0.7f});
      });
    }
  }
}

TEST_P(OptimizersTest, NanGradientReachesTheWeight) {
  Floats w(9, 1.0f), m(9, 0.0f), v(9, 0.0f), g(9, 0.1f);
  g[8] = kPoison;
  k().optimizers.adam({.weights = w.data(),
                       .gradient = g.data(),
                       .m = m.data(),
                       .v = v.data(),
                       .count = 9,
                       .alpha = 1e-3f});
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(std::isnan(w[i]), i == 8);
}

}  // namespace
}  // namespace surefit::kernels
