// SPDX-License-Identifier: Apache-2.0
// Initializers against their definitions: moments and bounds as Keras documents them, and matrices
// by what makes them orthogonal.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "nn/initializer.hpp"

namespace {

using surefit::ConfigMap;
using surefit::Object;
using surefit::Shape;

std::vector<float> draw(const Object& initializer, const Shape& shape, std::uint64_t seed = 1,
                        std::uint32_t parameter = 0) {
  std::vector<float> values(static_cast<std::size_t>(shape.count()), 77.0f);
  surefit::initialize(initializer, shape, seed, parameter, 0, values);
  return values;
}

struct Moments {
  double mean = 0, deviation = 0, low = 0, high = 0;
};

Moments moments_of(const std::vector<float>& values) {
  Moments m{.low = values[0], .high = values[0]};
  for (const float x : values) {
    m.mean += static_cast<double>(x) / static_cast<double>(values.size());
    m.low = std::min(m.low, static_cast<double>(x));
    m.high = std::max(m.high, static_cast<double>(x));
  }
  for (const float x : values) {
    const double off = static_cast<double>(x) - m.mean;
    m.deviation += off * off / static_cast<double>(values.size());
  }
  m.deviation = std::sqrt(m.deviation);
  return m;
}

// A 3x3 convolution from 64 to 128 channels: 73,728 numbers, fan in 576, fan out 1152.
const Shape kKernel{3, 3, 64, 128};

TEST(Initializers, ScaledOnesHaveTheVarianceOfTheirFan) {
  struct Case {
    const char* name;
    double variance;
    bool uniform;
  };
  for (const Case& each :
       {Case{"GlorotUniform", 2.0 / (576 + 1152), true}, Case{"HeUniform", 2.0 / 576, true},
        Case{"LecunUniform", 1.0 / 576, true}, Case{"GlorotNormal", 2.0 / (576 + 1152), false},
        Case{"HeNormal", 2.0 / 576, false}, Case{"LecunNormal", 1.0 / 576, false},
        Case{"VarianceScaling", 1.0 / 576, false}}) {
    SCOPED_TRACE(each.name);
    const double deviation = std::sqrt(each.variance);
    const Moments m = moments_of(draw({each.name}, kKernel));
    EXPECT_NEAR(m.mean, 0, 0.02 * deviation);
    EXPECT_NEAR(m.deviation, deviation, 0.02 * deviation);
    const double bound = each.uniform ? std::sqrt(3.0) * deviation : 2 * deviation / 0.8796256610;
    EXPECT_LE(m.high, bound * 1.0001);
    EXPECT_GE(m.low, -bound * 1.0001);
    EXPECT_GT(m.high, bound * 0.97);
  }
}

TEST(Initializers, FreeOnesHaveTheirOwnRangeAndDeviation) {
  const Moments uniform =
      moments_of(draw({"RandomUniform", ConfigMap{{"minval", -1.0}, {"maxval", 3.0}}}, kKernel));
  EXPECT_NEAR(uniform.mean, 1, 0.02);
  EXPECT_GE(uniform.low, -1);
  EXPECT_LE(uniform.high, 3);
  const Moments normal =
      moments_of(draw({"RandomNormal", ConfigMap{{"mean", 2.0}, {"stddev", 0.5}}}, kKernel));
  EXPECT_NEAR(normal.mean, 2, 0.01);
  EXPECT_NEAR(normal.deviation, 0.5, 0.01);
  EXPECT_GT(normal.high, 2 + 3 * 0.5);  // not truncated
  const Moments truncated =
      moments_of(draw({"TruncatedNormal", ConfigMap{{"mean", 2.0}, {"stddev", 0.5}}}, kKernel));
  EXPECT_LE(truncated.high, 3);
  EXPECT_GE(truncated.low, 1);
}

TEST(Initializers, ConstantsAreConstant) {
  EXPECT_EQ(draw({"zeros"}, {2, 2}), std::vector<float>(4, 0));
  EXPECT_EQ(draw({"Ones"}, {2, 2}), std::vector<float>(4, 1));
  EXPECT_EQ(draw({"Constant", ConfigMap{{"value", 0.25}}}, {3}), std::vector<float>(3, 0.25f));
}

// The largest deviation of vectors' products from gain^2 times the identity.
double distance_from_orthogonal(const std::vector<float>& values, std::size_t columns,
                                double gain) {
  const std::size_t rows = values.size() / columns;
  const bool tall = rows >= columns;
  const std::size_t vectors = tall ? columns : rows, length = tall ? rows : columns;
  const auto at = [&](std::size_t v, std::size_t i) {
    return static_cast<double>(tall ? values[i * columns + v] : values[v * columns + i]);
  };
  double worst = 0;
  for (std::size_t a = 0; a < vectors; ++a) {
    for (std::size_t b = 0; b < vectors; ++b) {
      double product = 0;
      for (std::size_t i = 0; i < length; ++i) product += at(a, i) * at(b, i);
      worst = std::max(worst, std::abs(product - (a == b ? gain * gain : 0)));
    }
  }
  return worst;
}

TEST(Initializers, OrthogonalRowsOrColumns) {
  for (const Shape& shape : {Shape{40, 12}, Shape{12, 40}, Shape{16, 16}, Shape{3, 3, 4, 20}}) {
    SCOPED_TRACE(shape.to_string());
    const auto columns = static_cast<std::size_t>(shape[shape.rank() - 1]);
    const auto values = draw({"Orthogonal"}, shape);
    EXPECT_LT(distance_from_orthogonal(values, columns, 1), 1e-5);
    EXPECT_LT(
        distance_from_orthogonal(draw({"Orthogonal", ConfigMap{{"gain", 2.0}}}, shape), columns, 2),
        1e-5);
    EXPECT_NE(values, draw({"Orthogonal"}, shape, 2));
    EXPECT_NE(values, draw({"Orthogonal"}, shape, 1, 1));
    // What merely has the right length is not orthogonal: the measure can fail.
    EXPECT_GT(distance_from_orthogonal(draw({"RandomNormal"}, shape), columns, 1), 1e-2);
  }
}

TEST(Initializers, IdentityIsTheIdentity) {
  EXPECT_EQ(draw({"Identity", ConfigMap{{"gain", 3.0}}}, {2, 3}),
            (std::vector<float>{3, 0, 0, 0, 3, 0}));
}

TEST(Initializers, MisfitsAreRefused) {
  EXPECT_THROW(draw({"Orthogonal"}, {4}), surefit::ConfigError);
  EXPECT_THROW(draw({"Identity"}, {3, 3, 1, 1}), surefit::ConfigError);
  EXPECT_THROW(draw({"GlorotUnifrom"}, {4, 4}), surefit::ConfigError);
}

TEST(Initializers, PiecesMakeTheWhole) {
  const Shape shape{37, 29};
  for (const char* name : {"Zeros", "GlorotUniform", "HeNormal", "RandomUniform", "RandomNormal",
                           "TruncatedNormal", "Identity"}) {
    SCOPED_TRACE(name);
    const Object initializer{name, {}};
    EXPECT_FALSE(surefit::initializes_as_a_whole(initializer));
    const std::vector<float> whole = draw(initializer, shape);
    std::vector<float> pieces(whole.size(), 77.0f);
    for (const auto& [begin, end] :
         {std::pair<std::size_t, std::size_t>{0, 1}, {1, 30}, {30, 611}, {611, pieces.size()}}) {
      surefit::initialize(initializer, shape, 1, 0, begin,
                          std::span(pieces).subspan(begin, end - begin));
    }
    EXPECT_EQ(pieces, whole);
  }
  EXPECT_TRUE(surefit::initializes_as_a_whole({"Orthogonal", {}}));
}

}  // namespace
