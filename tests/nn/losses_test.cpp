// SPDX-License-Identifier: Apache-2.0
// Losses and metrics against closed forms and central differences of those, in double.
#include <algorithm>
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "surefit/model.hpp"

#include "nn/loss.hpp"
#include "support/layer_conformance.hpp"
#include "support/loss_rig.hpp"

namespace surefit {
namespace {

using conformance::random_tensor;
using Row = std::vector<double>;
using Formula = std::function<double(const Row& prediction, const Row& target)>;

constexpr std::int64_t kBatch = 5, kClasses = 7;

Row softmax(Row row) {
  double top = row[0], sum = 0;
  for (const double value : row) top = std::max(top, value);
  for (double& value : row) sum += value = std::exp(value - top);
  for (double& value : row) value /= sum;
  return row;
}

double cross_entropy(const Row& p, const Row& t) {
  double loss = 0;
  for (std::size_t c = 0; c < p.size(); ++c) loss -= t[c] * std::log(p[c]);
  return loss;
}

// Keras divides by the sum before it takes logarithms.
Row normalised(Row row) {
  double sum = 0;
  for (const double value : row) sum += value;
  for (double& value : row) value /= sum;
  return row;
}

Row smoothed(Row row, double s) {
  for (double& value : row) value = value * (1 - s) + s / static_cast<double>(row.size());
  return row;
}

Tensor sparse_labels() {
  Tensor labels(Shape{kBatch}, DType::kInt32);
  const std::int32_t values[] = {3, 0, 6, 3, 1};
  std::copy(std::begin(values), std::end(values), labels.values<std::int32_t>().begin());
  return labels;
}

Tensor one_hot() {
  const Tensor labels = sparse_labels();
  Tensor rows(Shape{kBatch, kClasses});
  for (std::int64_t n = 0; n < kBatch; ++n) {
    rows.at<float>({n, labels.values<std::int32_t>()[static_cast<std::size_t>(n)]}) = 1;
  }
  return rows;
}

Row row_of(const Tensor& tensor, std::int64_t n) {
  const std::size_t width = tensor.shape().drop_front().count();
  const auto values = tensor.values<float>().subspan(width * static_cast<std::size_t>(n), width);
  return {values.begin(), values.end()};
}

// Values to 1e-6 (the loss is a double, the prediction and its exponentials are floats), gradients
// to 1e-6 of the largest possible, 1 / batch.
void expect_agrees(const Loss& loss, const Tensor& prediction, const Tensor& labels,
                   const Tensor& targets, const Formula& formula, const LossRun& run = {}) {
  const LossResult got = run_loss(loss, prediction, labels, run);
  const std::int64_t batch = prediction.shape()[0];
  double scale = 0;
  for (std::int64_t n = 0; n < batch; ++n) {
    Row row = row_of(prediction, n);
    const Row target = row_of(targets, n);
    const double expected = formula(row, target);
    EXPECT_NEAR(got.loss[static_cast<std::size_t>(n)], expected,
                1e-6 * std::max(1.0, std::abs(expected)));
    for (std::size_t c = 0; c < row.size(); ++c) {
      const double kept = row[c], shift = 1e-6 * std::max(1.0, std::abs(kept));
      row[c] = kept + shift;
      const double up = formula(row, target);
      row[c] = kept - shift;
      const double numeric = (up - formula(row, target)) / (2 * shift) / static_cast<double>(batch);
      row[c] = kept;
      scale = std::max({scale, std::abs(numeric), 1.0 / static_cast<double>(batch)});
      EXPECT_NEAR(row_of(got.gradient, n)[c], numeric, 1e-6 * scale)
          << "sample " << n << " class " << c;
    }
  }
}

TEST(Losses, SparseCategoricalCrossentropyOfLogits) {
  const Tensor logits = random_tensor({kBatch, kClasses}, 1, -5, 5);
  expect_agrees(SparseCategoricalCrossentropy{.from_logits = true}, logits, sparse_labels(),
                one_hot(), [](const Row& x, const Row& t) { return cross_entropy(softmax(x), t); });
}

TEST(Losses, SparseCategoricalCrossentropyOfProbabilities) {
  const Tensor probabilities = random_tensor({kBatch, kClasses}, 2, 0.05, 1);
  expect_agrees(SparseCategoricalCrossentropy{}, probabilities, sparse_labels(), one_hot(),
                [](const Row& p, const Row& t) { return cross_entropy(normalised(p), t); });
}

TEST(Losses, ASoftmaxBeforeTheLossIsLookedThrough) {
  const Tensor logits = random_tensor({kBatch, kClasses}, 3, -5, 5);
  const Formula formula = [](const Row& x, const Row& t) { return cross_entropy(softmax(x), t); };
  expect_agrees(SparseCategoricalCrossentropy{}, logits, sparse_labels(), one_hot(), formula,
                {.through_softmax = true});
  expect_agrees(CategoricalCrossentropy{}, logits, one_hot(), one_hot(), formula,
                {.through_softmax = true});
  // Told that these are logits, Keras applies a second softmax; so do we.
  expect_agrees(SparseCategoricalCrossentropy{.from_logits = true}, logits, sparse_labels(),
                one_hot(),
                [](const Row& x, const Row& t) { return cross_entropy(softmax(softmax(x)), t); },
                {.through_softmax = true});
}

TEST(Losses, LargeLogitsStayFinite) {
  Tensor logits = random_tensor({kBatch, kClasses}, 3, -5, 5);
  logits.at<float>({0, 0}) = 1000;
  logits.at<float>({1, 5}) = -1000;
  const LossResult got =
      run_loss(SparseCategoricalCrossentropy{}, logits, sparse_labels(), {.through_softmax = true});
  EXPECT_NEAR(got.loss[0], 1000 - static_cast<double>(logits.at<float>({0, 3})), 1e-3);
  for (const float value : got.gradient.values<float>()) EXPECT_TRUE(std::isfinite(value));
}

TEST(Losses, CategoricalCrossentropyWithSmoothing) {
  for (const double s : {0.0, 0.1, 1.0}) {
    expect_agrees(
        CategoricalCrossentropy{.from_logits = true, .label_smoothing = s},
        random_tensor({kBatch, kClasses}, 4, -3, 3), one_hot(), one_hot(),
        [s](const Row& x, const Row& t) { return cross_entropy(softmax(x), smoothed(t, s)); });
    expect_agrees(
        CategoricalCrossentropy{.label_smoothing = s},
        random_tensor({kBatch, kClasses}, 5, 0.05, 1), one_hot(), one_hot(),
        [s](const Row& p, const Row& t) { return cross_entropy(normalised(p), smoothed(t, s)); });
  }
}

TEST(Losses, MeanSquaredErrorOfRowsAndPictures) {
  const Formula formula = [](const Row& p, const Row& t) {
    double sum = 0;
    for (std::size_t i = 0; i < p.size(); ++i) sum += (p[i] - t[i]) * (p[i] - t[i]);
    return sum / static_cast<double>(p.size());
  };
  for (const Shape& shape : {Shape{kBatch, 1}, Shape{kBatch, 13}, Shape{kBatch, 2, 3, 5}}) {
    const Tensor target = random_tensor(shape, 7);
    expect_agrees(MeanSquaredError{}, random_tensor(shape, 6), target, target, formula);
  }
}

// Probabilities between a twentieth and 1 - a twentieth, and targets of 0 and 1.
Tensor shares(const Shape& shape, std::uint64_t seed) {
  return random_tensor(shape, seed, 0.05, 0.95);
}
Tensor bits(const Shape& shape, std::uint64_t seed) {
  Tensor tensor = random_tensor(shape, seed);
  for (float& value : tensor.values<float>()) value = value > 0 ? 1.0f : 0.0f;
  return tensor;
}

using Element = std::function<double(double p, double t)>;
Formula mean_of(const Element& element) {
  return [element](const Row& p, const Row& t) {
    double sum = 0;
    for (std::size_t i = 0; i < p.size(); ++i) sum += element(p[i], t[i]);
    return sum / static_cast<double>(p.size());
  };
}
double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}
double binary(double p, double t) {
  return -t * std::log(p) - (1 - t) * std::log(1 - p);
}

TEST(Losses, BinaryCrossentropyOfRowsAndPictures) {
  for (const Shape& shape : {Shape{kBatch, 1}, Shape{kBatch, 3, 2, 1}, Shape{kBatch, 5}}) {
    const Tensor target = bits(shape, 11);
    expect_agrees(BinaryCrossentropy{}, shares(shape, 10), target, target, mean_of(binary));
    expect_agrees(BinaryCrossentropy{.from_logits = true, .label_smoothing = 0.2},
                  random_tensor(shape, 12, -4, 4), target, target,
                  mean_of([](double x, double t) { return binary(logistic(x), t * 0.8 + 0.1); }));
  }
}

TEST(Losses, AbsoluteAndHuber) {
  const Shape shape = {kBatch, 2, 3, 2};
  const Tensor p = random_tensor(shape, 13, -3, 3), t = random_tensor(shape, 14);
  expect_agrees(MeanAbsoluteError{}, p, t, t,
                mean_of([](double x, double y) { return std::abs(x - y); }));
  expect_agrees(Huber{.delta = 0.7}, p, t, t, mean_of([](double x, double y) {
                  const double e = std::abs(x - y);
                  return e <= 0.7 ? e * e / 2 : 0.7 * (e - 0.35);
                }));
}

TEST(Losses, DivergenceAndFocal) {
  const Tensor p = shares({kBatch, kClasses}, 15), t = shares({kBatch, kClasses}, 16);
  expect_agrees(KLDivergence{}, p, t, t, [](const Row& q, const Row& truth) {
    double sum = 0;
    for (std::size_t c = 0; c < q.size(); ++c) sum += truth[c] * std::log(truth[c] / q[c]);
    return sum;
  });
  const Tensor marks = bits({kBatch, kClasses}, 17);
  const auto focal = [](double q, double truth) {
    const double right = truth * q + (1 - truth) * (1 - q);
    return std::pow(1 - right, 2) * binary(q, truth);
  };
  expect_agrees(BinaryFocalCrossentropy{}, p, marks, marks, mean_of(focal));
  expect_agrees(BinaryFocalCrossentropy{.apply_class_balancing = true, .from_logits = true},
                random_tensor({kBatch, kClasses}, 18, -3, 3), marks, marks,
                mean_of([&](double x, double truth) {
                  return (truth * 0.25 + (1 - truth) * 0.75) * focal(logistic(x), truth);
                }));
  const auto categorical = [](const Row& q, const Row& truth) {
    double sum = 0;
    for (std::size_t c = 0; c < q.size(); ++c)
      sum -= truth[c] * 0.25 * std::pow(1 - q[c], 2) * std::log(q[c]);
    return sum;
  };
  expect_agrees(CategoricalFocalCrossentropy{}, p, one_hot(), one_hot(),
                [&](const Row& q, const Row& truth) { return categorical(normalised(q), truth); });
  expect_agrees(CategoricalFocalCrossentropy{.from_logits = true},
                random_tensor({kBatch, kClasses}, 19, -3, 3), one_hot(), one_hot(),
                [&](const Row& x, const Row& truth) { return categorical(softmax(x), truth); });
}

TEST(Losses, DiceOfSamplesAndOfTheBatch) {
  const Shape shape = {kBatch, 3, 2, 1};
  const Tensor p = shares(shape, 20), t = bits(shape, 21);
  const Formula dice = [](const Row& q, const Row& truth) {
    double both = 0, all = 0;
    for (std::size_t i = 0; i < q.size(); ++i) {
      both += q[i] * truth[i];
      all += q[i] + truth[i];
    }
    return 1 - (2 * both + 1e-7) / (all + 1e-7);
  };
  expect_agrees(Dice{.axis = {1, 2, 3}}, p, t, t, dice);
  // The batch as one long sample: the same loss for everyone, and the gradient of that.
  const Shape whole = {1, kBatch * 6};
  const LossResult got = run_loss(Dice{}, p, t),
                   one = run_loss(Dice{.axis = {1}}, p.reshape(whole), t.reshape(whole));
  for (const double loss : got.loss) EXPECT_DOUBLE_EQ(loss, one.loss[0]);
  EXPECT_TRUE(
      std::equal(got.gradient.raw().begin(), got.gradient.raw().end(), one.gradient.raw().begin()));
  EXPECT_THROW(Loss(Dice{.axis = {1}}).impl().labels({3, 2, 1}), ConfigError);
}

TEST(Losses, CrossEntropyOfPicturesIsTheMeanOverPixels) {
  const Tensor logits =
      random_tensor({2, 9, 8, 3}, 22, -3, 3);  // more pixels than one call of the kernel takes
  Tensor labels(Shape{2, 9, 8}, DType::kInt32);
  for (std::size_t i = 0; i < labels.count(); ++i)
    labels.values<std::int32_t>()[i] = static_cast<std::int32_t>(i % 3);
  const LossResult pictures =
      run_loss(SparseCategoricalCrossentropy{.from_logits = true}, logits, labels);
  const LossResult rows = run_loss(SparseCategoricalCrossentropy{.from_logits = true},
                                   logits.reshape({144, 3}), labels.reshape({144}));
  for (std::size_t n = 0; n < 2; ++n) {
    double sum = 0;
    for (std::size_t i = 0; i < 72; ++i) sum += rows.loss[n * 72 + i];
    EXPECT_NEAR(pictures.loss[n], sum / 72, 1e-12);
  }
  for (std::size_t i = 0; i < logits.count(); ++i)
    EXPECT_NEAR(pictures.gradient.values<float>()[i], rows.gradient.values<float>()[i], 1e-9);
}

TEST(Losses, TheSameBitsInAnySchedule) {
  const Tensor logits = random_tensor({kBatch, kClasses}, 8, -5, 5);
  const Loss losses[] = {CategoricalCrossentropy{.from_logits = true, .label_smoothing = 0.1},
                         MeanSquaredError{}, Dice{},
                         CategoricalFocalCrossentropy{.from_logits = true}};
  for (const Loss& loss : losses) {
    const LossResult base = run_loss(loss, logits, one_hot());
    for (const std::int64_t group : {1, 2, 3, 8}) {
      for (int threads = 1; threads <= 4; ++threads) {
        // Three more samples than there are: a ragged batch.
        const LossResult got =
            run_loss(loss, logits, one_hot(), {.batch = 8, .group = group, .threads = threads});
        EXPECT_EQ(got.loss, base.loss);
        EXPECT_TRUE(std::equal(got.gradient.raw().begin(), got.gradient.raw().end(),
                               base.gradient.raw().begin()));
      }
    }
  }
}

TEST(Losses, AreFoundByNameAndRefuseNonsense) {
  EXPECT_EQ(Loss("mse").name(), "mean_squared_error");
  EXPECT_EQ(Loss("categorical_crossentropy").name(), "categorical_crossentropy");
  EXPECT_THROW(Loss("mean_squared_eror"), ConfigError);
  EXPECT_THROW(Loss(CategoricalCrossentropy{.label_smoothing = 1.5}), ConfigError);
  EXPECT_THROW(Loss(CategoricalCrossentropy{.label_smoothing = -0.5}), ConfigError);
  try {
    Loss::from_config("mse", {{"from_logits", ConfigValue(true)}});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("from_logits"), std::string::npos);
  }
}

TEST(Metrics, AccuracyOfSparseAndOneHotLabels) {
  const Tensor logits = random_tensor({kBatch, kClasses}, 9);
  const Tensor labels = sparse_labels();
  double hits = 0;
  for (std::int64_t n = 0; n < kBatch; ++n) {
    const Row row = row_of(logits, n);
    const auto best = std::max_element(row.begin(), row.end()) - row.begin();
    hits += best == labels.values<std::int32_t>()[static_cast<std::size_t>(n)] ? 1 : 0;
  }
  for (const bool through_softmax : {false, true}) {
    EXPECT_EQ(
        run_metric("accuracy", SparseCategoricalCrossentropy{}, logits, labels, through_softmax),
        hits / kBatch);
    EXPECT_EQ(run_metric("accuracy", CategoricalCrossentropy{}, logits, one_hot(), through_softmax),
              hits / kBatch);
  }
  EXPECT_EQ(run_metric("acc", CategoricalCrossentropy{}, one_hot(), one_hot()), 1.0);
  EXPECT_THROW(Metric("acuracy"), ConfigError);
}

TEST(Metrics, CountsOfPositives) {
  // Predictions 0.9 0.6 0.4 0.1, truths 1 0 1 0: one hit, one false alarm, one miss.
  Tensor p(Shape{4, 1}), t(Shape{4, 1});
  const float predicted[] = {0.9f, 0.6f, 0.4f, 0.1f}, truth[] = {1, 0, 1, 0};
  std::copy(std::begin(predicted), std::end(predicted), p.values<float>().begin());
  std::copy(std::begin(truth), std::end(truth), t.values<float>().begin());
  const Loss loss = BinaryCrossentropy{};
  EXPECT_EQ(run_metric("accuracy", loss, p, t), 0.5);
  EXPECT_EQ(run_metric("precision", loss, p, t), 0.5);
  EXPECT_EQ(run_metric(Recall{.thresholds = 0.3}, loss, p, t), 1.0);
  EXPECT_EQ(run_metric(Precision{.thresholds = 0.3}, loss, p, t), 2.0 / 3);
  // Three of the four pairs of a true and a false one are in order.
  EXPECT_DOUBLE_EQ(run_metric("auc", loss, p, t), 0.75);
  EXPECT_EQ(run_metric(F1Score{.threshold = 0.5}, loss, p, t), 0.5);
  EXPECT_DOUBLE_EQ(run_metric(MeanIoU{}, loss, p, t), 1.0 / 3);  // 1 of 3 in both classes
  EXPECT_NEAR(run_metric("mae", loss, p, t), (0.1 + 0.6 + 0.6 + 0.1) / 4, 1e-7);
  EXPECT_NEAR(run_metric("mse", loss, p, t), (0.01 + 0.36 + 0.36 + 0.01) / 4, 1e-7);
}

TEST(Metrics, CountsOfClasses) {
  Tensor p(Shape{3, 3});
  const float scores[] = {0.5f, 0.3f, 0.2f, 0.1f, 0.3f, 0.6f, 0.4f, 0.35f, 0.25f};
  std::copy(std::begin(scores), std::end(scores), p.values<float>().begin());
  Tensor labels(Shape{3}, DType::kInt32);
  const std::int32_t wanted[] = {0, 1, 1};
  std::copy(std::begin(wanted), std::end(wanted), labels.values<std::int32_t>().begin());
  const Loss loss = SparseCategoricalCrossentropy{};
  EXPECT_NEAR(run_metric(TopKCategoricalAccuracy{.k = 1}, loss, p, labels), 1.0 / 3, 1e-7);
  EXPECT_EQ(run_metric(TopKCategoricalAccuracy{.k = 2}, loss, p, labels), 1.0);
  // Predicted 0 2 0: class 0 has a hit and a false alarm, class 1 two misses, class 2 a false
  // alarm.
  EXPECT_DOUBLE_EQ(run_metric("f1_score", loss, p, labels), (2.0 / 3) / 3);
  EXPECT_DOUBLE_EQ(run_metric(F1Score{.average = "micro"}, loss, p, labels), 2.0 / 6);
  EXPECT_DOUBLE_EQ(run_metric(MeanIoU{.num_classes = 3}, loss, p, labels), (1.0 / 2) / 3);
  EXPECT_THROW(run_metric(MeanIoU{.num_classes = 2}, loss, p, labels), ConfigError);
}

// A flattened softmax over channels is not the softmax of the row: looking through it would give
// another loss.
TEST(Losses, AFlattenedSoftmaxIsNotLookedThrough) {
  const Symbol x = Input({2, 1, 3});
  const Symbol conv = Layer(Conv2D{.filters = 3})(x);
  const Symbol y = Layer(Flatten{})(Layer(Softmax{})(conv));
  Model model({x}, {y});
  model.compile({.loss = "sparse_categorical_crossentropy", .metrics = {"accuracy"}});
  const Tensor images = random_tensor({4, 2, 1, 3}, 1, -3, 3);
  Tensor labels(Shape{4}, DType::kInt32);
  const std::int32_t wanted[] = {5, 0, 2, 4};
  std::copy(std::begin(wanted), std::end(wanted), labels.values<std::int32_t>().begin());
  const Tensor p = model.predict(images);
  double loss = 0, hits = 0;
  for (std::int64_t n = 0; n < 4; ++n) {
    const Row row = row_of(p, n);  // two softmaxes: sums to 2, which Keras divides by
    const auto label =
        static_cast<std::size_t>(labels.values<std::int32_t>()[static_cast<std::size_t>(n)]);
    loss -= std::log(row[label] / 2) / 4;
    hits +=
        static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin()) == label
            ? 1
            : 0;
  }
  const Logs logs = model.evaluate(images, labels);
  EXPECT_NEAR(*find_log(logs, "loss"), loss, 1e-6 * loss);
  EXPECT_EQ(*find_log(logs, "accuracy"), hits / 4);
}

}  // namespace
}  // namespace surefit
