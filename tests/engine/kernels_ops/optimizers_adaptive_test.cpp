// SPDX-License-Identifier: Apache-2.0
// Each optimizer against Keras 3's formulas written out in double, four steps, whole and in pieces.
#include "engine/kernels_ops/support.hpp"

namespace surefit::kernels {
namespace {

using AdaptiveTest = KernelTest;
INSTANTIATE_TEST_SUITE_P(Isa, AdaptiveTest, testing::Values("baseline", "avx2"));

constexpr std::int64_t kCount = 103;
constexpr int kSteps = 4;
using Doubles = std::vector<double>;

Floats gradient(int t) {
  return uniform(kCount, 70 + static_cast<std::uint64_t>(t));
}

// state[0] is the weights. `kernel(state, gradient, offset, count, t)` against `reference(w, s1,
// s2, s3, g, t)`.
template <class Kernel, class Reference>
void compare(float initial, Kernel kernel, Reference reference, double tolerance = 1e-6) {
  std::vector<Floats> whole(4, Floats(kCount, initial));
  whole[0] = uniform(kCount, 70);
  std::vector<Floats> cut = whole;
  std::vector<Doubles> want;
  for (const Floats& s : whole) want.emplace_back(s.begin(), s.end());
  for (int t = 1; t <= kSteps; ++t) {
    const Floats g = gradient(t);
    kernel(whole, g, 0, kCount, t);
    for (std::int64_t at = 0, size = 1; at < kCount;
         at += size, size = std::min(size + 4, kCount - at))
      kernel(cut, g, at, size, t);
    for (std::size_t i = 0; i < g.size(); ++i)
      reference(want[0][i], want[1][i], want[2][i], want[3][i], double{g[i]}, t);
  }
  for (std::size_t s = 0; s < 4; ++s) {
    expect_same_bits(whole[s], cut[s]);
    for (std::size_t i = 0; i < want[s].size(); ++i)
      ASSERT_NEAR(whole[s][i], want[s][i], tolerance * (1 + std::fabs(want[s][i])))
          << "state " << s << " at " << i;
  }
}

TEST_P(AdaptiveTest, Rmsprop) {
  for (const bool centered : {false, true})
    for (const float momentum : {0.0f, 0.9f})
      compare(
          0.0f,
          [&](std::vector<Floats>& s, const Floats& g, std::int64_t at, std::int64_t n, int) {
            k().optimizers.rmsprop({.weights = s[0].data() + at,
                                    .gradient = g.data() + at,
                                    .square = s[1].data() + at,
                                    .mean = centered ? s[2].data() + at : nullptr,
                                    .momentum_buffer = momentum > 0 ? s[3].data() + at : nullptr,
                                    .count = n,
                                    .lr = 0.01f,
                                    .momentum = momentum,
                                    .weight_decay = 0.1f});
          },
          [&](double& w, double& v, double& mean, double& b, double g, int) {
            w -= w * double{0.1f} * double{0.01f};
            const double rho = double{0.9f};
            v = rho * v + (1 - rho) * g * g;
            if (centered) mean = rho * mean + (1 - rho) * g;
            const double step =
                double{0.01f} * g / std::sqrt(v - (centered ? mean * mean : 0) + double{1e-7f});
            if (momentum > 0) b = momentum * b + step;
            w -= momentum > 0 ? b : step;
          });
}

TEST_P(AdaptiveTest, Adagrad) {
  compare(
      0.1f,
      [&](std::vector<Floats>& s, const Floats& g, std::int64_t at, std::int64_t n, int) {
        k().optimizers.adagrad({.weights = s[0].data() + at,
                                .gradient = g.data() + at,
                                .accumulator = s[1].data() + at,
                                .count = n,
                                .lr = 0.01f});
      },
      [](double& w, double& a, double&, double&, double g, int) {
        a += g * g;
        w -= double{0.01f} * g / std::sqrt(a + double{1e-7f});
      });
}

TEST_P(AdaptiveTest, Adadelta) {
  compare(
      0.0f,
      [&](std::vector<Floats>& s, const Floats& g, std::int64_t at, std::int64_t n, int) {
        k().optimizers.adadelta({.weights = s[0].data() + at,
                                 .gradient = g.data() + at,
                                 .square_gradient = s[1].data() + at,
                                 .square_delta = s[2].data() + at,
                                 .count = n,
                                 .lr = 1.0f});
      },
      [](double& w, double& sg, double& sd, double&, double g, int) {
        const double rho = double{0.95f}, eps = double{1e-7f};
        sg = rho * sg + (1 - rho) * g * g;
        const double delta = -std::sqrt(sd + eps) * g / std::sqrt(sg + eps);
        sd = rho * sd + (1 - rho) * delta * delta;
        w += delta;
      });
}

TEST_P(AdaptiveTest, Nadam) {
  double product = 1;
  int last = 0;
  compare(
      0.0f,
      [&](std::vector<Floats>& s, const Floats& g, std::int64_t at, std::int64_t n, int t) {
        k().optimizers.nadam({.weights = s[0].data() + at,
                              .gradient = g.data() + at,
                              .m = s[1].data() + at,
                              .v = s[2].data() + at,
                              .count = n,
                              .terms = nadam_terms(0.9, 0.999, t),
                              .lr = 0.01f});
      },
      [&](double& w, double& m, double& v, double&, double g, int t) {
        const double b1 = double{0.9f}, b2 = double{0.999f};
        const double u = 0.9 * (1 - 0.5 * std::pow(0.96, t)),
                     next = 0.9 * (1 - 0.5 * std::pow(0.96, t + 1));
        if (t != last) product *= u, last = t;
        m += (g - m) * (1 - b1);
        v += (g * g - v) * (1 - b2);
        const double m_hat = next * m / (1 - product * next) + (1 - u) * g / (1 - product);
        const double v_hat = v / (1 - std::pow(0.999, t));
        w -= m_hat * double{0.01f} / (std::sqrt(v_hat) + double{1e-7f});
      });
}

// Every task of every step asks for them.
TEST(NadamTerms, AreThoseOfTheWholeProductAtAnyStep) {
  for (const double beta1 : {0.5, 0.9, 0.9999}) {
    double product = 1;
    for (std::int64_t step = 1; step <= 20000; ++step) {
      const double u = beta1 * (1 - 0.5 * std::pow(0.96, step));
      const double next = beta1 * (1 - 0.5 * std::pow(0.96, step + 1));
      product *= u;
      if (step > 3 && step % 997 != 0) continue;
      const NadamTerms terms = nadam_terms(beta1, 0.999, step);
      EXPECT_NEAR(terms.m / (next / (1 - product * next)), 1, 2e-7) << beta1 << " step " << step;
      EXPECT_NEAR(terms.g / ((1 - u) / (1 - product)), 1, 2e-7) << beta1 << " step " << step;
    }
  }
}

TEST_P(AdaptiveTest, Lion) {
  compare(
      0.0f,
      [&](std::vector<Floats>& s, const Floats& g, std::int64_t at, std::int64_t n, int) {
        k().optimizers.lion({.weights = s[0].data() + at,
                             .gradient = g.data() + at,
                             .m = s[1].data() + at,
                             .count = n,
                             .lr = 0.01f,
                             .weight_decay = 0.1f});
      },
      [](double& w, double& m, double&, double&, double g, int) {
        w -= w * double{0.1f} * double{0.01f};
        const double mix = double{0.9f} * m + (1 - double{0.9f}) * g;
        w -= double{0.01f} * (mix > 0 ? 1 : mix < 0 ? -1 : 0);
        m = double{0.99f} * m + (1 - double{0.99f}) * g;
      });
}

TEST_P(AdaptiveTest, RowsOfAdafactor) {
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{8}, std::int64_t{29}}) {
    const Floats g = uniform(n, 80), start = uniform(n, 81);
    Doubles columns(n), scales(n);
    for (std::int64_t i = 0; i < n; ++i)
      columns[i] = static_cast<double>(i), scales[i] = 1 + 0.1 * static_cast<double>(i);
    const double squares = k().optimizers.row_squares(g.data(), 0.5f, 1e-3, n, columns.data());
    const double norm = k().optimizers.row_norm(g.data(), 0.5f, 3.0, scales.data(), n);
    Floats w = start;
    k().optimizers.row_step(w.data(), g.data(), 0.5f, 3.0, scales.data(), n);
    double want_squares = 0, want_norm = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double half = 0.5 * double{g[i]}, u = 3.0 * scales[i] * half;
      want_squares += half * half + 1e-3;
      want_norm += u * u;
      EXPECT_NEAR(columns[i], static_cast<double>(i) + half * half + 1e-3, 1e-12);
      EXPECT_EQ(w[i], static_cast<float>(double{start[i]} - u));
    }
    EXPECT_NEAR(squares, want_squares, 1e-12 * want_squares);
    EXPECT_NEAR(norm, want_norm, 1e-12 * want_norm);
  }
}

TEST(OptimizerTermsTest, PowersOfSteps) {
  for (const std::int64_t step : {1, 2, 3, 10, 12345, 100000000}) {
    for (const double exponent : {-0.8, -0.5, 0.0, 0.3}) {
      const double want = std::pow(static_cast<double>(step), exponent);
      EXPECT_NEAR(power_of_step(step, exponent), want, 1e-12 * want) << step;
    }
  }
}

TEST_P(AdaptiveTest, SquareSums) {
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{4096}, std::int64_t{10001}}) {
    const Floats x = uniform(n, 90);
    const std::int64_t chunks = (n + kSquareChunk - 1) / kSquareChunk;
    Doubles whole(chunks), cut(chunks);
    k().optimizers.square_sums(x.data(), n, 0, chunks, whole.data());
    for (std::int64_t i = chunks - 1; i >= 0; --i)
      k().optimizers.square_sums(x.data(), n, i, i + 1, cut.data());
    EXPECT_EQ(whole, cut);
    double total = 0, want = 0;
    for (const double s : whole) total += s;
    for (const float v : x) want += double{v} * v;
    EXPECT_NEAR(total, want, 1e-12 * want);
  }
}

}  // namespace
}  // namespace surefit::kernels
