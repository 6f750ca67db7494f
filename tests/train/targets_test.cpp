// SPDX-License-Identifier: Apache-2.0
// What a model is trained for: weights of samples and classes, several outputs.
#include <cmath>

#include <gtest/gtest.h>

#include "surefit/model.hpp"

#include "train/support.hpp"

namespace surefit {
namespace {

Tensor labels(std::initializer_list<std::int32_t> values) {
  return Tensor::of<std::int32_t>({static_cast<std::int64_t>(values.size())},
                                  std::span(values.begin(), values.size()));
}

Tensor numbers(std::initializer_list<float> values) {
  return Tensor::of<float>({static_cast<std::int64_t>(values.size())},
                           std::span(values.begin(), values.size()));
}

Sequential classifier() {
  Sequential model({6, 6, 3}, {Conv2D{.filters = 9, .kernel_size = 3, .activation = "relu"},
                               Flatten{}, Dense{.units = 4, .activation = "softmax"}});
  model.initialize(5);
  model.compile({.optimizer = SGD{.learning_rate = 0.5}, .metrics = {"accuracy"}});
  return model;
}

float largest_difference(const Model& a, const Model& b) {
  float largest = 0;
  for (const std::string& name : a.parameter_names()) {
    const Tensor left = a.parameter(name), right = b.parameter(name);
    for (std::size_t i = 0; i < left.count(); ++i) {
      largest = std::max(largest, std::abs(left.values<float>()[i] - right.values<float>()[i]));
    }
  }
  return largest;
}

const FitOptions kOneStep = {.batch_size = 8, .epochs = 1, .shuffle = false};

TEST(SampleWeight, CountsAsOftenAsItSays) {
  const Tensor x = waves({4, 6, 6, 3}, 0.7), y = labels({0, 3, 1, 2});
  // Half of the batch counts twice, the other half not at all: the mean over the first half.
  Sequential weighted = classifier(), half = classifier(), whole = classifier();
  const History history = weighted.fit(x, y, numbers({2, 2, 0, 0}), kOneStep);
  const History expected = half.fit(x.slice(0, 2), y.slice(0, 2), kOneStep);
  whole.fit(x, y, kOneStep);
  EXPECT_LT(largest_difference(weighted, half), 1e-6f);
  EXPECT_GT(largest_difference(weighted, whole), 1e-4f);
  EXPECT_NEAR(history.series("loss")[0], expected.series("loss")[0], 1e-6);
  // Metrics do not weigh, as Keras's `metrics`.
  Sequential plain = classifier();
  EXPECT_EQ(history.series("accuracy"), plain.fit(x, y, kOneStep).series("accuracy"));
}

TEST(SampleWeight, WeighsEvaluationToo) {
  const Tensor x = waves({4, 6, 6, 3}, 0.7), y = labels({0, 3, 1, 2});
  Sequential model = classifier();
  const Logs half = model.evaluate(x.slice(0, 2), y.slice(0, 2));
  const Logs weighted =
      model.evaluate(Dataset::from_tensor_slices(x, y, numbers({2, 2, 0, 0})).batch(4));
  EXPECT_NEAR(*find_log(weighted, "loss"), *find_log(half, "loss"), 1e-6);
}

TEST(SampleWeight, MustBeOneFiniteNumber) {
  const Tensor x = waves({4, 6, 6, 3}, 0.7), y = labels({0, 3, 1, 2});
  Sequential model = classifier();
  EXPECT_THROW(model.fit(x, y, waves({4, 2}, 1), kOneStep), DataError);
  EXPECT_THROW(model.fit(x, y, numbers({1, 1, NAN, 1}), kOneStep), DataError);
}

TEST(ClassWeight, IsTheWeightOfTheSamplesOfTheClass) {
  const Tensor x = waves({5, 6, 6, 3}, 0.7), y = labels({0, 3, 1, 3, 2});
  Sequential by_class = classifier(), by_sample = classifier();
  FitOptions options = kOneStep;
  options.class_weight = {{3, 0.25}, {1, 4}};
  by_class.fit(x, y, options);
  by_sample.fit(x, y, numbers({1, 0.25f, 4, 0.25f, 1}), kOneStep);
  EXPECT_EQ(largest_difference(by_class, by_sample), 0);
}

TEST(ClassWeight, TakesOneHotLabels) {
  const Tensor x = waves({3, 6, 6, 3}, 0.7), sparse = labels({0, 3, 1});
  Tensor hot({3, 4});
  hot.at<float>({0, 0}) = hot.at<float>({1, 3}) = hot.at<float>({2, 1}) = 1;
  Sequential a = classifier(), b = classifier();
  a.compile({.optimizer = SGD{.learning_rate = 0.5}, .loss = "categorical_crossentropy"});
  FitOptions options = kOneStep;
  options.class_weight = {{3, 3}};
  a.fit(x, hot, options);
  b.fit(x, sparse, options);
  EXPECT_LT(largest_difference(a, b), 1e-6f);
}

TEST(ClassWeight, RefusesWhatMakesNoSense) {
  const Tensor x = waves({2, 6, 6, 3}, 0.7), y = labels({0, 3});
  Sequential model = classifier();
  FitOptions options = kOneStep;
  options.class_weight = {{3, -1}};
  EXPECT_THROW(model.fit(x, y, options), ConfigError);
  options.class_weight = {{3, 2}};
  EXPECT_THROW(model.fit(x, y, numbers({1, 1}), options), ConfigError);
}

// A trunk with a head that classifies and one that measures.
Model two_heads() {
  const Symbol input = Input({6, 6, 3});
  const Symbol trunk = Layer(Flatten{})(
      Layer(Conv2D{.filters = 9, .kernel_size = 3, .activation = "relu", .name = "trunk"})(input));
  const Symbol digit = Layer(Dense{.units = 4, .activation = "softmax", .name = "digit"})(trunk);
  const Symbol angle = Layer(Dense{.units = 1, .name = "angle"})(trunk);
  Model model({input}, {digit, angle});
  model.initialize(5);
  return model;
}

Dataset two_labels() {
  return Dataset::from_tensor_slices(
             {waves({6, 6, 6, 3}, 0.7), labels({0, 3, 1, 2, 2, 0}), waves({6, 1}, 1.3)})
      .batch(4);
}

void compile_heads(Model& model, double digit, double angle) {
  model.compile(
      {.optimizer = SGD{.learning_rate = 0.5},
       .outputs = {
           {.loss = "sparse_categorical_crossentropy", .weight = digit, .metrics = {"accuracy"}},
           {.loss = "mse", .weight = angle, .metrics = {"mae"}}}});
}

TEST(SeveralOutputs, LossIsTheWeightedSum) {
  Model model = two_heads();
  compile_heads(model, 2, 0.5);
  const Logs logs = model.evaluate(two_labels());
  ASSERT_EQ(logs.size(), 5u);
  EXPECT_EQ(logs[0].first, "loss");
  EXPECT_EQ(logs[1].first, "digit_loss");
  EXPECT_EQ(logs[2].first, "angle_loss");
  EXPECT_EQ(logs[3].first, "digit_accuracy");
  EXPECT_EQ(logs[4].first, "angle_mae");
  EXPECT_GT(logs[1].second, 0.1);
  EXPECT_GT(logs[2].second, 0.01);
  EXPECT_NEAR(logs[0].second, 2 * logs[1].second + 0.5 * logs[2].second, 1e-6);
}

TEST(SeveralOutputs, UpdatesAddUp) {
  // The trunk's first SGD step is the sum of the steps for each head alone.
  const auto trunk_step = [](double digit, double angle) {
    Model model = two_heads();
    compile_heads(model, digit, angle);
    const Tensor before = model.parameter("trunk/kernel");
    model.fit(two_labels(), {.max_steps = 1});
    Tensor step = model.parameter("trunk/kernel");
    for (std::size_t i = 0; i < step.count(); ++i)
      step.values<float>()[i] -= before.values<float>()[i];
    return step;
  };
  const Tensor both = trunk_step(1, 0.25), digit = trunk_step(1, 0), angle = trunk_step(0, 1);
  float largest = 0;
  for (std::size_t i = 0; i < both.count(); ++i) {
    const float sum = digit.values<float>()[i] + 0.25f * angle.values<float>()[i];
    EXPECT_NEAR(both.values<float>()[i], sum, 2e-6f);
    largest = std::max(largest, std::abs(angle.values<float>()[i]));
  }
  EXPECT_GT(largest, 1e-3f);
}

TEST(SeveralOutputs, SameBitsForAnyThreadsAndGroups) {
  const auto train = [](int threads, std::int64_t group) {
    Model model = two_heads();
    compile_heads(model, 1, 0.25);
    model.fit(two_labels(), {.epochs = 3, .threads = threads, .group = group});
    return model;
  };
  const Model expected = train(1, 0);
  EXPECT_EQ(largest_difference(expected, train(3, 1)), 0);
  EXPECT_EQ(largest_difference(expected, train(2, 3)), 0);
}

TEST(SeveralOutputs, PredictsAllOfThem) {
  Model model = two_heads();
  const std::vector<Tensor> outputs = model.predict(two_labels());
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(outputs[0].shape(), (Shape{6, 4}));
  EXPECT_EQ(outputs[1].shape(), (Shape{6, 1}));
  EXPECT_EQ(model.output_names(), (std::vector<std::string>{"digit", "angle"}));
}

TEST(ConfusionMatrix, CountsEachPair) {
  // A model that says what its input says.
  Sequential model({3},
                   {Activation{.activation = "softmax"}, Dense{.units = 3, .use_bias = false}});
  Tensor one({3, 3});
  for (std::int64_t i = 0; i < 3; ++i) one.at<float>({i, i}) = 1;
  model.set_parameter("dense/kernel", one);
  model.compile({.loss = SparseCategoricalCrossentropy{.from_logits = true}});
  Tensor x({5, 3});
  const std::int64_t says[5] = {0, 2, 2, 1, 0};
  for (std::int64_t n = 0; n < 5; ++n) x.at<float>({n, says[n]}) = 4;
  const Tensor matrix =
      model.confusion_matrix(Dataset::from_tensor_slices(x, labels({0, 2, 1, 1, 2})).batch(2));
  const std::vector<std::int64_t> expected = {1, 0, 0, 0, 1, 1, 1, 0, 1};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), matrix.values<std::int64_t>().begin()));
}

TEST(SeveralOutputs, NeedALossEach) {
  Model model = two_heads();
  EXPECT_THROW(model.compile({.loss = "mse"}), ConfigError);
  EXPECT_THROW(model.compile({.outputs = {{.loss = "mse"}}}), ConfigError);
}

}  // namespace
}  // namespace surefit
