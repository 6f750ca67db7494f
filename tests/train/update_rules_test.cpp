// SPDX-License-Identifier: Apache-2.0
// What stands between a gradient and the weights: clipping, penalties, constraints, frozen layers,
// schedules, means.
#include <cmath>

#include <gtest/gtest.h>

#include "surefit/model.hpp"

#include "train/model_impl.hpp"

namespace surefit {
namespace {

Tensor counted(const Shape& shape, double step) {
  Tensor tensor(shape);
  for (std::size_t i = 0; i < tensor.count(); ++i)
    tensor.values<float>()[i] = static_cast<float>(std::sin(step * static_cast<double>(i + 1)));
  return tensor;
}

struct Trained {
  std::vector<Tensor> before, after;  // kernels of both layers
  double loss = 0;                    // of the first step
};

struct Rules {
  Optimizer optimizer = SGD{.learning_rate = 1};
  Conv2D conv = {.filters = 9, .kernel_size = 2, .use_bias = false};
  Dense dense = {.units = 3, .use_bias = false};
  std::int64_t steps = 1;
};

Trained train(const Rules& rules) {
  Sequential model({4, 4, 5}, {rules.conv, Flatten{}, rules.dense});
  model.initialize(3);
  const Tensor x = counted({6, 4, 4, 5}, 0.7), y = counted({6, 3}, 1.3);
  model.compile({.optimizer = rules.optimizer, .loss = "mse"});
  Trained result;
  const std::vector<std::string> names = {"conv2d/kernel", "dense/kernel"};
  for (const std::string& name : names) result.before.push_back(model.parameter(name));
  const History history =
      model.fit(x, y, {.batch_size = 6, .epochs = rules.steps, .shuffle = false});
  result.loss = history.series("loss")[0];
  for (const std::string& name : names) result.after.push_back(model.parameter(name));
  return result;
}

double norm_of_change(const Trained& run, std::size_t layer) {
  double sum = 0;
  for (std::size_t i = 0; i < run.before[layer].count(); ++i) {
    const double change = static_cast<double>(run.after[layer].values<float>()[i] -
                                              run.before[layer].values<float>()[i]);
    sum += change * change;
  }
  return std::sqrt(sum);
}

// Of a weight that gets no more gradients, behind a dead ReLU, say. Left to shrink, they would stay
// among the denormals for good, where every update is slow.
TEST(Denormals, MomentsOfAnIdleWeightReachZero) {
  for (const int threads : {1, 2}) {
    Sequential model({16}, {Dense{.units = 4, .use_bias = false}});
    model.compile({.optimizer = Adam{}, .loss = "mse"});
    const Tensor y = counted({8, 4}, 1.3), dark({8, 16});
    model.fit(counted({8, 16}, 0.7), y, {.batch_size = 8, .shuffle = false, .threads = threads});
    const float* momentum = model.impl().parameters.slot(0, 0);
    EXPECT_GT(std::abs(momentum[0]), 1e-6f);
    // 0.9^1000 is 1e-46.
    model.fit(dark, y, {.batch_size = 8, .epochs = 1000, .shuffle = false, .threads = threads});
    momentum = model.impl().parameters.slot(0, 0);
    for (int i = 0; i < 64; ++i) ASSERT_EQ(momentum[i], 0.0f) << "weight " << i;
    EXPECT_GT(model.impl().parameters.slot(0, 1)[0], 0.0f);  // velocity: 0.999^1000
  }
}

TEST(Clipping, LimitsNormsAndValues) {
  const Trained free = train({});
  ASSERT_GT(norm_of_change(free, 0), 0.02);
  const Trained each = train({.optimizer = SGD{.learning_rate = 1, .clipnorm = 0.01}});
  EXPECT_NEAR(norm_of_change(each, 0), 0.01, 1e-6);
  EXPECT_NEAR(norm_of_change(each, 1), 0.01, 1e-6);
  const Trained all = train({.optimizer = SGD{.learning_rate = 1, .global_clipnorm = 0.01}});
  EXPECT_NEAR(std::hypot(norm_of_change(all, 0), norm_of_change(all, 1)), 0.01, 1e-6);
  EXPECT_NEAR(norm_of_change(all, 0) / norm_of_change(all, 1),
              norm_of_change(free, 0) / norm_of_change(free, 1), 1e-3);
  const Trained values = train({.optimizer = SGD{.learning_rate = 1, .clipvalue = 0.001}});
  double most = 0;
  for (std::size_t i = 0; i < values.before[0].count(); ++i) {
    const double change = static_cast<double>(values.after[0].values<float>()[i] -
                                              values.before[0].values<float>()[i]);
    most = std::max(most, std::abs(change));
    ASSERT_LE(std::abs(change), 0.001 + 1e-6);
  }
  EXPECT_NEAR(most, 0.001, 1e-6);
  // A limit that is never reached changes nothing.
  const Trained wide = train({.optimizer = SGD{.learning_rate = 1, .clipnorm = 1e6}});
  EXPECT_TRUE(std::equal(wide.after[0].raw().begin(), wide.after[0].raw().end(),
                         free.after[0].raw().begin()));
}

TEST(Regularizers, AddToLossAndGradient) {
  const Trained plain = train({});
  Rules rules;
  rules.conv.kernel_regularizer =
      Object{"L1L2", {{"l1", ConfigValue(0.01)}, {"l2", ConfigValue(0.02)}}};
  const Trained penalised = train(rules);
  double penalty = 0;
  for (std::size_t i = 0; i < plain.before[0].count(); ++i) {
    const auto w = static_cast<double>(plain.before[0].values<float>()[i]);
    penalty += 0.01 * std::abs(w) + 0.02 * w * w;
    const double expected = static_cast<double>(plain.after[0].values<float>()[i]) - 2 * 0.02 * w -
                            (w > 0 ? 0.01 : -0.01);
    ASSERT_NEAR(penalised.after[0].values<float>()[i], expected, 1e-6);
  }
  EXPECT_NEAR(penalised.loss, plain.loss + penalty, 1e-6 * penalised.loss);
}

TEST(Constraints, HoldAfterEveryStep) {
  Rules rules;
  const ConfigList axes = {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}};
  rules.conv.kernel_constraint =
      Object{"MaxNorm", {{"max_value", ConfigValue(0.3)}, {"axis", ConfigValue(axes)}}};
  rules.dense.kernel_constraint = Object{"UnitNorm"};
  rules.steps = 3;
  const Trained run = train(rules);
  const auto norms = [](const Tensor& kernel) {
    std::vector<double> sums(static_cast<std::size_t>(kernel.shape()[kernel.shape().rank() - 1]));
    for (std::size_t i = 0; i < kernel.count(); ++i) {
      const auto w = static_cast<double>(kernel.values<float>()[i]);
      sums[i % sums.size()] += w * w;
    }
    return sums;
  };
  for (const double sum : norms(run.after[0])) EXPECT_LE(std::sqrt(sum), 0.3 + 1e-6);
  for (const double sum : norms(run.after[1])) EXPECT_NEAR(std::sqrt(sum), 1, 1e-5);
}

TEST(FrozenLayers, NeitherMoveNorTakeMemory) {
  Sequential model({4, 4, 5},
                   {Conv2D{.filters = 9, .kernel_size = 2, .trainable = false},
                    BatchNormalization{.trainable = false}, Flatten{}, Dense{.units = 3}});
  model.compile({.optimizer = "adam", .loss = "mse"});
  const Program program(model.impl().network, &*model.impl().compiled, Program::Purpose::kTrain);
  for (const Value& value : program.graph().values()) {
    const bool frozen =
        value.name.starts_with("conv2d") || value.name.starts_with("batch_normalization");
    if (!frozen) continue;
    EXPECT_NE(value.category, Category::kGradients) << value.name;
    EXPECT_NE(value.category, Category::kOptimizer) << value.name;
  }
  for (const Node& node : program.graph().nodes()) {
    if (node.layer == "conv2d" || node.layer == "batch_normalization") {
      EXPECT_EQ(node.phase, Phase::kForward) << node.op->kind();
    }
  }
  const Tensor before = model.parameter("conv2d/kernel"),
               moving = model.parameter("batch_normalization/moving_mean");
  model.fit(counted({6, 4, 4, 5}, 0.7), counted({6, 3}, 1.3), {.batch_size = 3});
  const Tensor after = model.parameter("conv2d/kernel"),
               still = model.parameter("batch_normalization/moving_mean");
  EXPECT_TRUE(std::equal(after.raw().begin(), after.raw().end(), before.raw().begin()));
  EXPECT_TRUE(std::equal(still.raw().begin(), still.raw().end(), moving.raw().begin()));
}

TEST(Schedule, IsFollowedStepByStep) {
  // The first two steps have a rate, the third has none.
  const Optimizer stops =
      SGD{.learning_rate = PiecewiseConstantDecay{.boundaries = {1}, .values = {0.1, 0}}};
  const Trained two = train({.optimizer = SGD{.learning_rate = 0.1}, .steps = 2}),
                three = train({.optimizer = stops, .steps = 3});
  EXPECT_TRUE(std::equal(two.after[0].raw().begin(), two.after[0].raw().end(),
                         three.after[0].raw().begin()));
}

TEST(MovingMeans, TakeTheWeightsPlaceAtTheEnd) {
  const Trained one = train({.optimizer = SGD{.learning_rate = 0.1}, .steps = 1}),
                two = train({.optimizer = SGD{.learning_rate = 0.1}, .steps = 2}),
                mean = train(
                    {.optimizer = SGD{.learning_rate = 0.1, .use_ema = true, .ema_momentum = 0.75},
                     .steps = 2});
  for (std::size_t i = 0; i < mean.after[0].count(); ++i) {
    ASSERT_NEAR(mean.after[0].values<float>()[i],
                0.75 * static_cast<double>(one.after[0].values<float>()[i]) +
                    0.25 * static_cast<double>(two.after[0].values<float>()[i]),
                1e-7);
  }
}

TEST(BadLoss, IsSeenBeforeAnythingChanges) {
  Sequential model({6, 6, 3}, {Conv2D{.filters = 4, .kernel_size = 3}, BatchNormalization{}, ReLU{},
                               Flatten{}, Dense{.units = 2}});
  model.compile({.optimizer = "sgd", .loss = "mse"});
  const Tensor x = counted({4, 6, 6, 3}, 0.7), y = counted({4, 2}, 1.3);
  model.fit(x, y, {.batch_size = 4});  // memory now holds a loss that is fine
  Tensor kernel = model.parameter("conv2d/kernel");
  kernel.values<float>()[7] = NAN;
  model.set_parameter("conv2d/kernel", kernel);
  const Tensor mean = model.parameter("batch_normalization/moving_mean"),
               dense = model.parameter("dense/kernel");
  try {
    model.fit(x, y, {.batch_size = 4});
    FAIL() << "a loss of NaN was not noticed";
  } catch (const NumericsError& error) {
    EXPECT_NE(std::string(error.what()).find("step 2"), std::string::npos) << error.what();
  }
  const auto same = [&](const Tensor& then, const std::string& name) {
    const Tensor now = model.parameter(name);
    return std::equal(now.raw().begin(), now.raw().end(), then.raw().begin());
  };
  EXPECT_TRUE(same(mean, "batch_normalization/moving_mean"));
  EXPECT_TRUE(same(dense, "dense/kernel"));
}

TEST(SharedLayers, UpdateTheirStatisticsInEveryCall) {
  // One normalization called twice moves its mean by both calls, one after the other.
  const Symbol a = Input({4, 4, 2}), b = Input({4, 4, 2});
  const Layer shared = BatchNormalization{.momentum = 0.5};
  Model model({a, b},
              {Layer(Dense{.units = 1})(Layer(Flatten{})(Layer(Add{})({shared(a), shared(b)})))});
  model.compile({.optimizer = "sgd", .loss = "mse"});
  Tensor x = counted({6, 4, 4, 2}, 0.7), z = counted({6, 4, 4, 2}, 0.3);
  for (float& value : z.values<float>()) value += 3;
  model.fit(Dataset::from_tensor_slices({x, z, counted({6, 1}, 1)}).batch(6));
  const auto mean_of = [](const Tensor& tensor, std::size_t channel) {
    double sum = 0;
    for (std::size_t i = channel; i < tensor.count(); i += 2)
      sum += static_cast<double>(tensor.values<float>()[i]);
    return sum / static_cast<double>(tensor.count() / 2);
  };
  const Tensor mean = model.parameter("batch_normalization/moving_mean");
  for (std::size_t c = 0; c < 2; ++c) {
    EXPECT_NEAR(mean.values<float>()[c], (0.5 * mean_of(x, c)) * 0.5 + 0.5 * mean_of(z, c), 1e-5);
  }
}

}  // namespace
}  // namespace surefit
