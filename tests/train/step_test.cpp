// SPDX-License-Identifier: Apache-2.0
// Training steps of a user's own.
#include "surefit/step.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "train/support.hpp"

namespace surefit {
namespace {

Tensor labels(std::int64_t count, std::int32_t classes) {
  Tensor tensor({count}, DType::kInt32);
  for (std::int64_t n = 0; n < count; ++n)
    tensor.at<std::int32_t>({n}) = static_cast<std::int32_t>(n * 7 % classes);
  return tensor;
}

const Shape kPicture{8, 8, 3};

// With everything that makes steps hard: batch statistics, dropout, a residual.
Model make_model(double dropout = 0.25) {
  const Symbol input = Input(kPicture);
  const Symbol first = Layer(Conv2D{.filters = 9, .kernel_size = 3, .padding = "same"})(input);
  const Symbol normal = Layer(ReLU{})(Layer(BatchNormalization{})(first));
  const Symbol second = Layer(Conv2D{.filters = 9, .kernel_size = 3, .padding = "same"})(normal);
  const Symbol sum = Layer(Add{})({normal, second});
  const Symbol drop = Layer(Dropout{.rate = dropout})(sum);
  const Symbol output =
      Layer(Dense{.units = 4, .activation = "softmax"})(Layer(GlobalAveragePooling2D{})(drop));
  Model model(input, output);
  model.initialize(3);
  model.compile({.optimizer = Adam{.learning_rate = 0.01}});
  return model;
}

const Loss kLoss = "sparse_categorical_crossentropy";

Step make_step(Model& model, const StepOptions& options) {
  return Step(options, [&](Tape& tape) {
    const Traced x = tape.input(kPicture), y = tape.input({}, DType::kInt32);
    const LossValue loss = tape.loss(kLoss, y, tape.call(model, x));
    tape.apply(model, tape.gradient(loss, model));
    return loss;
  });
}

float largest_difference(const Tensor& a, const Tensor& b) {
  float largest = 0;
  for (std::size_t i = 0; i < a.count(); ++i)
    largest = std::max(largest, std::abs(a.values<float>()[i] - b.values<float>()[i]));
  return largest;
}

TEST(Step, IsWhatFitDoes) {
  const Tensor x = waves({12, 8, 8, 3}, 0.7), y = labels(12, 4);
  Model fitted = make_model(0), stepped = make_model(0);
  const History history = fitted.fit(x, y, {.batch_size = 5, .epochs = 2, .shuffle = false});
  Step step = make_step(stepped, {.batch_size = 5});
  double loss = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    loss = 0;
    for (std::int64_t n = 0; n < 12; n += 5) {
      const std::int64_t end = std::min<std::int64_t>(12, n + 5);
      loss += step(x.slice(n, end), y.slice(n, end)) * static_cast<double>(end - n) / 12;
    }
  }
  expect_same_bits(fitted, stepped);
  EXPECT_NEAR(loss, history.series("loss")[1], 1e-9);
  EXPECT_EQ(step.calls(), 6);
}

TEST(Step, SameBitsForAnyThreadsGroupsAndBudget) {
  const Tensor x = waves({10, 8, 8, 3}, 0.7), y = labels(10, 4);
  const auto train = [&](const StepOptions& options) {
    Model model = make_model();
    Step step = make_step(model, options);
    for (int i = 0; i < 4; ++i) step(x, y);
    return model;
  };
  const Model expected = train({.batch_size = 10, .threads = 1});
  expect_same_bits(expected, train({.batch_size = 10, .threads = 3}));
  expect_same_bits(expected, train({.batch_size = 10, .threads = 2, .group = 1}));
  expect_same_bits(expected, train({.batch_size = 32, .threads = 2}));
}

TEST(Step, AddedUpGradientsAreThoseOfTheWholeBatch) {
  // Without batch statistics and dropout, the mean over parts is the mean over all.
  const auto plain = [] {
    Sequential model(kPicture, {Conv2D{.filters = 9, .kernel_size = 3, .activation = "relu"},
                                Flatten{}, Dense{.units = 4, .activation = "softmax"}});
    model.initialize(3);
    model.compile({.optimizer = SGD{.learning_rate = 0.5}});
    return model;
  };
  const Tensor x = waves({12, 8, 8, 3}, 0.7), y = labels(12, 4);
  Sequential whole = plain(), parts = plain();
  Step whole_step = make_step(whole, {.batch_size = 12});
  GradientSum sum(parts);
  Step micro({.batch_size = 4}, [&](Tape& tape) {
    const Traced pictures = tape.input(kPicture), truth = tape.input({}, DType::kInt32);
    const LossValue loss = tape.loss(kLoss, truth, tape.call(parts, pictures));
    tape.accumulate(sum, tape.gradient(loss, parts) * (1.0 / 3));
    return loss;
  });
  Step apply({}, [&](Tape& tape) { tape.apply(parts, tape.take(sum)); });
  EXPECT_THROW(apply(), ConfigError);  // nothing was added up yet
  for (int round = 0; round < 3; ++round) {
    whole_step(x, y);
    for (std::int64_t n = 0; n < 12; n += 4) micro(x.slice(n, n + 4), y.slice(n, n + 4));
    apply();
    for (const std::string& name : whole.parameter_names())
      EXPECT_LT(largest_difference(whole.parameter(name), parts.parameter(name)), 2e-6f) << name;
  }
}

TEST(Step, ClipsGradients) {
  const Tensor x = waves({6, 8, 8, 3}, 0.7), y = labels(6, 4);
  const auto norm = [](const Step& step, const std::string& name, const Model& model) {
    double sum = 0;
    for (const std::string& parameter : model.parameter_names()) {
      if (parameter.find("moving") != std::string::npos) continue;
      const Tensor gradient = step.tensor(name + "/" + parameter);
      for (const float each : gradient.values<float>())
        sum += static_cast<double>(each) * static_cast<double>(each);
    }
    return std::sqrt(sum);
  };
  Model model = make_model(0);
  Step step({.batch_size = 6}, [&](Tape& tape) {
    const Traced pictures = tape.input(kPicture), truth = tape.input({}, DType::kInt32);
    const Gradients gradients =
        tape.gradient(tape.loss(kLoss, truth, tape.call(model, pictures)), model);
    tape.output("free", gradients);
    tape.output("global", clip_by_global_norm(gradients, 0.01));
    tape.output("value", clip_by_value(gradients, 1e-3));
    tape.output("twice", gradients + gradients);
  });
  step(x, y);
  EXPECT_GT(norm(step, "free", model), 0.05);
  EXPECT_NEAR(norm(step, "global", model), 0.01, 1e-6);
  EXPECT_NEAR(norm(step, "twice", model), 2 * norm(step, "free", model), 1e-6);
  float largest = 0;
  const Tensor clipped = step.tensor("value/conv2d/kernel");
  for (const float each : clipped.values<float>()) largest = std::max(largest, std::abs(each));
  EXPECT_EQ(largest, 1e-3f);
}

TEST(Step, OwnArithmeticHasTheRightGradient) {
  // mean((x * w - t)^2) + 0.5 mean(|x|), by hand.
  const Tensor x = waves({3, 5}, 0.9), w = waves({3, 5}, 0.4), t = waves({3, 5}, 1.7);
  Step step({.batch_size = 3}, [&](Tape& tape) {
    const Traced a = tape.input({5}), b = tape.input({5}), c = tape.input({5});
    const LossValue loss = tape.mean(square(a * b - c)) + tape.mean(abs(a)) * 0.5;
    tape.output("gradient", tape.gradient(loss, a));
    tape.output("product", a * b);
    return loss;
  });
  const double loss = step(x, w, t);
  const Tensor gradient = step.tensor("gradient"), product = step.tensor("product");
  double expected = 0;
  for (std::size_t i = 0; i < 15; ++i) {
    const auto xi = static_cast<double>(x.values<float>()[i]);
    const auto wi = static_cast<double>(w.values<float>()[i]);
    const double error = xi * wi - static_cast<double>(t.values<float>()[i]);
    expected += (error * error + 0.5 * std::abs(xi)) / 15;
    EXPECT_NEAR(gradient.values<float>()[i], (2 * error * wi + 0.5 * (xi > 0 ? 1 : -1)) / 15, 1e-6);
    EXPECT_NEAR(product.values<float>()[i], xi * wi, 1e-6);
  }
  EXPECT_NEAR(loss, expected, 1e-6);
}

TEST(Step, TwoModelsAndTwoCallsOfOne) {
  // A teacher that does not learn, and a student that is called twice.
  Model teacher = make_model(0), student = make_model(0);
  student.initialize(9);
  const Tensor before = teacher.parameter("dense/kernel");
  Step step({.batch_size = 6}, [&](Tape& tape) {
    const Traced a = tape.input(kPicture), b = tape.input(kPicture);
    const Traced target = tape.call(teacher, a, false);
    const LossValue loss = tape.mean(square(tape.call(student, a) - target)) +
                           tape.mean(square(tape.call(student, b) - target));
    tape.apply(student, tape.gradient(loss, student));
    return loss;
  });
  const Tensor x = waves({6, 8, 8, 3}, 0.7), z = waves({6, 8, 8, 3}, 0.71);
  const double first = step(x, z);
  double last = 0;
  for (int i = 0; i < 30; ++i) last = step(x, z);
  EXPECT_LT(last, first * 0.5);
  EXPECT_EQ(largest_difference(before, teacher.parameter("dense/kernel")), 0);
}

TEST(Step, ABadLossLeavesTheModelAsItWas) {
  Model model = make_model(0);
  Step step = make_step(model, {.batch_size = 4});
  Tensor x = waves({4, 8, 8, 3}, 0.7);
  const Tensor y = labels(4, 4);
  step(x, y);
  const Tensor before = model.parameter("dense/kernel");
  x.values<float>()[5] = NAN;
  EXPECT_THROW(step(x, y), NumericsError);
  EXPECT_EQ(largest_difference(before, model.parameter("dense/kernel")), 0);
  EXPECT_EQ(step.calls(), 1);
}

TEST(Step, RefusesWhatMakesNoSense) {
  Model model = make_model(0), other = make_model(0);
  const auto trace = [&](const std::function<void(Tape&, Traced, Traced)>& body) {
    Step step({.batch_size = 4}, [&](Tape& tape) {
      const Traced x = tape.input(kPicture), y = tape.input({}, DType::kInt32);
      body(tape, x, y);
    });
  };
  EXPECT_THROW(trace([](Tape&, Traced, Traced) {}), ConfigError);
  EXPECT_THROW(trace([&](Tape& tape, Traced, Traced y) { tape.call(model, y); }), ConfigError);
  EXPECT_THROW(trace([&](Tape& tape, Traced x, Traced) {
                 tape.loss(kLoss, x, tape.call(model, x));  // pictures are no labels
               }),
               ConfigError);
  EXPECT_THROW(trace([&](Tape& tape, Traced x, Traced y) {
                 tape.gradient(tape.loss(kLoss, y, tape.call(model, x)), other);
               }),
               ConfigError);
  EXPECT_THROW(trace([&](Tape& tape, Traced x, Traced y) {
                 const Gradients g = tape.gradient(tape.loss(kLoss, y, tape.call(model, x)), model);
                 tape.apply(model, g);
                 tape.call(model, x);  // would have to see the new weights
               }),
               ConfigError);
  Step step = make_step(model, {.batch_size = 4});
  const Tensor x = waves({4, 8, 8, 3}, 0.7), y = labels(4, 4);
  EXPECT_THROW(step(x), ConfigError);
  EXPECT_THROW(step(waves({5, 8, 8, 3}, 1), labels(5, 4)), ConfigError);
  EXPECT_THROW(step(x, labels(3, 4)), ConfigError);
  EXPECT_THROW(step(x, labels(4, 9)), DataError);
  EXPECT_THROW(step.number("nothing"), ConfigError);
  model.compile({});
  EXPECT_THROW(step(x, y), ConfigError);  // its slots moved
}

// The gradient of a large kernel is used up piece by piece, unless somebody wants to see it.
TEST(LargeDense, PiecewiseUpdatesHaveTheSameBits) {
  const auto make = [] {
    Sequential model({1100}, {Dense{.units = 1000, .activation = "relu"}, Dense{.units = 3}});
    model.initialize(2);
    model.compile({.optimizer = Adam{.learning_rate = 0.01, .use_ema = true}, .loss = "mse"});
    return model;
  };
  const Tensor x = waves({7, 1100}, 0.7), y = waves({7, 3}, 1.3);
  Sequential whole = make(), pieces = make(), fitted = make();
  const auto trace = [&](Model& model, bool look) {
    return Step({.batch_size = 7}, [&model, look](Tape& tape) {
      const Traced input = tape.input({1100}), target = tape.input({3});
      const LossValue loss = tape.loss("mse", target, tape.call(model, input));
      const Gradients gradients = tape.gradient(loss, model);
      if (look) tape.output("gradient", gradients);
      tape.apply(model, gradients);
      return loss;
    });
  };
  Step seen = trace(whole, true), unseen = trace(pieces, false);
  for (int i = 0; i < 3; ++i) {
    seen(x, y);
    unseen(x, y);
  }
  expect_same_bits(whole, pieces);
  // 4.4 MB of gradient are not there at all.
  EXPECT_GT(seen.memory().arena_bytes, unseen.memory().arena_bytes + 4000000);
  // However the batch is cut.
  fitted.compile({.optimizer = Adam{.learning_rate = 0.01}, .loss = "mse"});
  Sequential other = make();
  other.compile({.optimizer = Adam{.learning_rate = 0.01}, .loss = "mse"});
  fitted.fit(x, y, {.batch_size = 7, .epochs = 3, .shuffle = false, .threads = 1});
  other.fit(x, y, {.batch_size = 7, .epochs = 3, .shuffle = false, .threads = 3, .group = 2});
  expect_same_bits(fitted, other);
}

TEST(Step, OutlivesTheModelItWasTracedFrom) {
  auto model = std::make_unique<Model>(make_model(0));
  Step step = make_step(*model, {.batch_size = 4});
  const Tensor x = waves({4, 8, 8, 3}, 0.7), y = labels(4, 4);
  const double before = step(x, y);
  model.reset();
  EXPECT_LT(step(x, y), before);
}

}  // namespace
}  // namespace surefit
