// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "engine/kernels_ops/support.hpp"

namespace surefit::kernels {
namespace {

using ElementwiseTest = KernelTest;
INSTANTIATE_TEST_SUITE_P(Isa, ElementwiseTest, testing::Values("baseline", "avx2"));

constexpr float kAlpha = 0.3f;

double reference(Activation kind, double x) {
  const double a = kAlpha;
  switch (kind) {
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kRelu6:
      return std::min(std::max(x, 0.0), 6.0);
    case Activation::kLeakyRelu:
      return x < 0 ? a * x : x;
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kElu:
      return x < 0 ? a * std::expm1(x) : x;
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kSwish:
      return x / (1 + std::exp(-x));
    case Activation::kSoftplus:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
    case Activation::kHardSigmoid:
      return std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::kExponential:
      return std::exp(x);
    case Activation::kSelu:
      return 1.0507009873554805 * (x < 0 ? 1.6732632423543772 * std::expm1(x) : x);
    case Activation::kHardSwish:
      return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::kMish:
      return x * std::tanh(std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))));
    case Activation::kSoftsign:
      return x / (1 + std::fabs(x));
    default:
      return x;
  }
}

// Largest error allowed: in ulps of the result, or absolute in units of 2^-24 max(1, |x|) where the
// formula itself cancels (as Keras's float formula does too).
struct Bound {
  double ulp, absolute;
};
Bound bound(Activation kind) {
  switch (kind) {
    case Activation::kSigmoid:
      return {3, 0};
    case Activation::kTanh:
      return {3, 0};
    case Activation::kElu:
      return {3.5, 0};
    case Activation::kSwish:
      return {3.5, 0x1p-125};  // |x| times one subnormal step, where sigmoid(x) is subnormal
    case Activation::kSoftplus:
      return {3, 0};
    case Activation::kGelu:
      return {2, 2};
    case Activation::kGeluTanh:
      return {2, 4};
    case Activation::kHardSigmoid:
      return {1, 1};
    case Activation::kExponential:
      return {1, 0};
    case Activation::kSelu:
      return {4.5, 0};  // the constants are rounded to float32, as Keras's are
    case Activation::kHardSwish:
      return {2, 1};
    case Activation::kMish:
      return {6, 0x1p-124};  // as kSwish, twice: two functions, one inside the other
    case Activation::kSoftsign:
      return {1.5, 0};
    default:
      return {0.5, 0};
  }
}

Floats sweep() {
  Floats x = uniform(40000, 21, -12, 12);
  for (float v = 1e-9f; v < 110.0f; v *= 1.03f) x.push_back(v), x.push_back(-v);
  x.push_back(0.0f);
  return x;
}

TEST_P(ElementwiseTest, ActivationsMatchDouble) {
  const Floats x = sweep();
  for (int i = 0; i < static_cast<int>(Activation::kCount); ++i) {
    const auto kind = static_cast<Activation>(i);
    Floats y = poison(static_cast<std::int64_t>(x.size()));
    k().elementwise.activation({.kind = kind,
                                .alpha = kAlpha,
                                .src = x.data(),
                                .dst = y.data(),
                                .count = static_cast<std::int64_t>(x.size())});
    double worst = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double want = reference(kind, x[j]), error = std::fabs(y[j] - want);
      if (error <= bound(kind).absolute * 0x1p-24 * std::max(1.0, std::fabs(double{x[j]})))
        continue;
      ASSERT_LE(ulps(y[j], want), bound(kind).ulp)
          << "kind " << i << " x " << x[j] << " got " << y[j];
      worst = std::max(worst, ulps(y[j], want));
    }
    RecordProperty("ulps_" + std::to_string(i), std::to_string(worst));
  }
}

TEST_P(ElementwiseTest, BackwardMatchesNumericDerivative) {
  const Floats x = uniform(4001, 22, -7, 7), dy = uniform(4001, 23, 0.5f, 2.0f);
  const auto n = static_cast<std::int64_t>(x.size());
  for (int i = 0; i < static_cast<int>(Activation::kCount); ++i) {
    const auto kind = static_cast<Activation>(i);
    Floats y = poison(n), dx = poison(n);
    k().elementwise.activation(
        {.kind = kind, .alpha = kAlpha, .src = x.data(), .dst = y.data(), .count = n});
    k().elementwise.activation_backward(
        {.kind = kind,
         .alpha = kAlpha,
         .saved = activation_saves_input(kind) ? x.data() : y.data(),
         .diff_dst = dy.data(),
         .diff_src = dx.data(),
         .count = n});
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double h = 1e-5, v = x[j];
      const bool kink =
          std::fabs(v) < 1e-4 || std::fabs(v - 6) < 1e-4 || std::fabs(std::fabs(v) - 3) < 1e-4;
      if (kink) continue;
      const double slope = (reference(kind, v + h) - reference(kind, v - h)) / (2 * h);
      ASSERT_NEAR(dx[j], slope * dy[j], 4e-6 * std::max(1.0, std::fabs(slope)))
          << "kind " << i << " x " << v;
    }
  }
}

TEST_P(ElementwiseTest, NanStaysNanAndInfinitiesHaveLimits) {
  const float inf = std::numeric_limits<float>::infinity();
  const Floats x = {kPoison, inf, -inf};
  for (int i = 0; i < static_cast<int>(Activation::kCount); ++i) {
    const auto kind = static_cast<Activation>(i);
    Floats y(3);
    k().elementwise.activation(
        {.kind = kind, .alpha = kAlpha, .src = x.data(), .dst = y.data(), .count = 3});
    EXPECT_TRUE(std::isnan(y[0])) << i;
    const bool bounded = kind == Activation::kSigmoid || kind == Activation::kTanh ||
                         kind == Activation::kHardSigmoid;
    if (kind == Activation::kSoftsign) continue;  // inf / inf, as Keras computes it
    EXPECT_EQ(y[1], bounded ? 1.0f : kind == Activation::kRelu6 ? 6.0f : inf) << i;
    if (kind == Activation::kSigmoid || kind == Activation::kRelu ||
        kind == Activation::kSoftplus || kind == Activation::kExponential) {
      EXPECT_EQ(y[2], 0.0f);
    }
    if (kind == Activation::kTanh) {
      EXPECT_EQ(y[2], -1.0f);
    }
  }
}

TEST_P(ElementwiseTest, CutAnywhereSameBits) {
  const Floats x = uniform(77, 24, -5, 5), d = uniform(77, 25);
  for (int i = 0; i < static_cast<int>(Activation::kCount); ++i) {
    const auto kind = static_cast<Activation>(i);
    Floats whole = poison(77), cut = poison(77), dwhole = poison(77), dcut = poison(77);
    k().elementwise.activation(
        {.kind = kind, .alpha = kAlpha, .src = x.data(), .dst = whole.data(), .count = 77});
    k().elementwise.activation_backward({.kind = kind,
                                         .alpha = kAlpha,
                                         .saved = x.data(),
                                         .diff_dst = d.data(),
                                         .diff_src = dwhole.data(),
                                         .count = 77});
    for (std::int64_t at = 0, size = 1; at < 77; at += size, size = std::min(size + 3, 77 - at)) {
      k().elementwise.activation({.kind = kind,
                                  .alpha = kAlpha,
                                  .src = x.data() + at,
                                  .dst = cut.data() + at,
                                  .count = size});
      k().elementwise.activation_backward({.kind = kind,
                                           .alpha = kAlpha,
                                           .saved = x.data() + at,
                                           .diff_dst = d.data() + at,
                                           .diff_src = dcut.data() + at,
                                           .count = size});
    }
    expect_same_bits(whole, cut);
    expect_same_bits(dwhole, dcut);
  }
}

TEST_P(ElementwiseTest, PaddingLanesStayZero) {
  for (const std::int64_t channels : {1, 3, 5}) {
    const Floats x = random_blocked(1, channels, 9, 26);
    for (int i = 0; i < static_cast<int>(Activation::kCount); ++i) {
      const auto kind = static_cast<Activation>(i);
      Floats y = poison(72);
      k().elementwise.activation(
          {.kind = kind,
           .alpha = kAlpha,
           .src = x.data(),
           .dst = y.data(),
           .count = 72,
           .live_lanes = activation_keeps_zero(kind) ? 8 : static_cast<int>(channels)});
      EXPECT_TRUE(padding_is_zero(y, 1, channels, 9)) << i;
    }
  }
}

TEST_P(ElementwiseTest, SimpleRanges) {
  for (const std::int64_t n : {1, 7, 8, 9, 40, 1003}) {
    const Floats a = uniform(n, 27), b = uniform(n, 28), y = uniform(n, 29);
    const ElementwiseKernels& e = k().elementwise;
    Floats out = poison(n);
    const auto check = [&](const std::function<float(std::size_t)>& want) {
      for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], want(i));
    };
    e.relu(a.data(), out.data(), n);
    check([&](std::size_t i) { return std::max(a[i], 0.0f); });
    e.add(a.data(), b.data(), out.data(), n);
    check([&](std::size_t i) { return a[i] + b[i]; });
    e.add_relu(a.data(), b.data(), out.data(), n);
    check([&](std::size_t i) { return std::max(a[i] + b[i], 0.0f); });
    e.multiply(a.data(), b.data(), out.data(), n);
    check([&](std::size_t i) { return a[i] * b[i]; });
    e.relu_backward(y.data(), a.data(), out.data(), n);
    check([&](std::size_t i) { return y[i] > 0 ? a[i] : 0.0f; });
    e.add_relu_backward(y.data(), a.data(), b.data(), out.data(), n);
    check([&](std::size_t i) { return y[i] > 0 ? a[i] + b[i] : 0.0f; });
    e.scale(a.data(), 0.7f, out.data(), n);
    check([&](std::size_t i) { return a[i] * 0.7f; });
    out = b;
    e.accumulate(a.data(), out.data(), n);
    check([&](std::size_t i) { return a[i] + b[i]; });
  }
}

}  // namespace
}  // namespace surefit::kernels
