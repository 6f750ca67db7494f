// SPDX-License-Identifier: Apache-2.0
// Learning rate schedules against Keras's formulas at chosen steps.
#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "surefit/optimizers.hpp"

namespace surefit {
namespace {

double half_cosine(double share) {
  return 0.5 * (1 + std::cos(std::numbers::pi * share));
}

TEST(Schedules, ExponentialAndInverseTime) {
  const ExponentialDecay smooth = {
      .initial_learning_rate = 0.1, .decay_steps = 10, .decay_rate = 0.5};
  EXPECT_DOUBLE_EQ(smooth.at(0), 0.1);
  EXPECT_DOUBLE_EQ(smooth.at(5), 0.1 * std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(smooth.at(20), 0.025);
  ExponentialDecay stairs = smooth;
  stairs.staircase = true;
  EXPECT_DOUBLE_EQ(stairs.at(19), 0.05);
  const InverseTimeDecay inverse = {
      .initial_learning_rate = 0.1, .decay_steps = 10, .decay_rate = 0.5};
  EXPECT_DOUBLE_EQ(inverse.at(20), 0.05);
}

TEST(Schedules, PiecewiseAndPolynomial) {
  const PiecewiseConstantDecay pieces = {.boundaries = {10, 20}, .values = {1, 0.5, 0.1}};
  EXPECT_EQ(pieces.at(10), 1);
  EXPECT_EQ(pieces.at(11), 0.5);
  EXPECT_EQ(pieces.at(21), 0.1);
  PolynomialDecay line = {
      .initial_learning_rate = 0.1, .decay_steps = 10, .end_learning_rate = 0.01, .power = 2};
  EXPECT_DOUBLE_EQ(line.at(5), 0.09 * 0.25 + 0.01);
  EXPECT_DOUBLE_EQ(line.at(50), 0.01);
  line.cycle = true;
  EXPECT_DOUBLE_EQ(line.at(15), 0.09 * 0.0625 + 0.01);
}

TEST(Schedules, CosineWithWarmUpAndRestarts) {
  const CosineDecay plain = {.initial_learning_rate = 0.1, .decay_steps = 100, .alpha = 0.1};
  EXPECT_DOUBLE_EQ(plain.at(25), 0.1 * (0.9 * half_cosine(0.25) + 0.1));
  EXPECT_DOUBLE_EQ(plain.at(500), 0.1 * 0.1);
  const CosineDecay warm = {
      .initial_learning_rate = 0, .decay_steps = 100, .warmup_target = 0.2, .warmup_steps = 10};
  EXPECT_DOUBLE_EQ(warm.at(5), 0.1);
  EXPECT_DOUBLE_EQ(warm.at(60), 0.2 * half_cosine(0.5));
  const CosineDecayRestarts again = {
      .initial_learning_rate = 0.1, .first_decay_steps = 10, .t_mul = 2, .m_mul = 0.5};
  EXPECT_DOUBLE_EQ(again.at(5), 0.1 * half_cosine(0.5));
  EXPECT_DOUBLE_EQ(again.at(20),
                   0.1 * 0.5 * half_cosine(0.5));  // half of the second stretch, 10 to 30
  EXPECT_DOUBLE_EQ(again.at(50), 0.1 * 0.25 * half_cosine(0.5));  // of the third, 30 to 70
}

TEST(Schedules, TravelThroughTheConfigurationAsInKeras) {
  const Optimizer adam =
      Adam{.learning_rate = CosineDecay{.initial_learning_rate = 0.1, .decay_steps = 100}};
  const Optimizer again = Optimizer::from_config(adam.class_name(), adam.config());
  EXPECT_EQ(again.config(), adam.config());
  const ConfigValue* rate = find(adam.config(), "learning_rate");
  ASSERT_NE(rate, nullptr);
  EXPECT_NE(rate->to_string().find("CosineDecay"), std::string::npos);
  const auto refused = [](const char* name, ConfigMap config) {
    const ConfigMap object = {{"class_name", ConfigValue(std::string(name))},
                              {"config", ConfigValue(std::move(config))}};
    EXPECT_THROW(Optimizer::from_config("adam", {{"learning_rate", ConfigValue(object)}}),
                 ConfigError)
        << name;
  };
  refused("CosineDecoy", {});
  refused("CosineDecay", {{"decay_steps", ConfigValue(0.0)}});
  refused("PiecewiseConstantDecay", {{"values", ConfigValue(ConfigList{1.0, 2.0})}});
  refused("ExponentialDecay", {{"decay", ConfigValue(1.0)}});
}

}  // namespace
}  // namespace surefit
