// SPDX-License-Identifier: Apache-2.0
// Metrics made of counts.
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "nn/metrics/counted.hpp"

namespace surefit {
namespace {

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

std::function<std::int64_t(std::int64_t)> always(std::int64_t width) {
  return [width](std::int64_t) { return width; };
}

// True positives, false positives, false negatives of everything above the threshold.
void count_positives(const MetricSample& sample, double threshold, float* numbers) {
  for (std::int64_t row = 0; row < sample.rows; ++row) {
    for (std::int64_t c = 0; c < sample.classes; ++c) {
      const bool predicted =
          static_cast<double>(sample.prediction[row * sample.classes + c]) > threshold;
      const bool is = sample.truth(row, c) > 0.5;
      numbers[predicted && is ? 0 : predicted ? 1 : 2] += predicted || is ? 1.0f : 0.0f;
    }
  }
}

MetricPtr make_positives(std::string_view kind, double threshold, bool of_predicted) {
  if (!(threshold >= 0 && threshold <= 1))
    throw ConfigError(fmt::format("[{}] thresholds; expected 0 to 1; got {}", kind, threshold));
  return make_counted_metric(
      {.kind = kind,
       .width = always(3),
       .count = [threshold](const MetricSample& sample,
                            float* numbers) { count_positives(sample, threshold, numbers); },
       .most_width = 3,
       .result = [of_predicted](std::span<const double> s,
                                double) { return ratio(s[0], s[0] + s[of_predicted ? 1 : 2]); }});
}

template <typename Error>
MetricPtr make_error(std::string_view kind, Error error) {
  const auto count = [error](const MetricSample& sample, float* numbers) {
    double sum = 0;
    for (std::int64_t row = 0; row < sample.rows; ++row) {
      for (std::int64_t c = 0; c < sample.classes; ++c)
        sum += error(static_cast<double>(sample.prediction[row * sample.classes + c]) -
                     sample.truth(row, c));
    }
    numbers[0] = static_cast<float>(sum / static_cast<double>(sample.rows * sample.classes));
  };
  return make_counted_metric(
      {.kind = kind,
       .width = always(1),
       .count = count,
       .most_width = 1,
       .result = [](std::span<const double> s, double samples) { return s[0] / samples; }});
}

constexpr std::int64_t kMostClasses = 1024;

}  // namespace

MetricPtr make_metric(const TopKCategoricalAccuracy& spec) {
  if (spec.k < 1)
    throw ConfigError(
        fmt::format("[TopKCategoricalAccuracy] k; expected at least 1; got {}", spec.k));
  const auto count = [k = spec.k](const MetricSample& sample, float* numbers) {
    std::int64_t hits = 0;
    for (std::int64_t row = 0; row < sample.rows; ++row) {
      const float* scores = sample.prediction + row * sample.classes;
      const float own = scores[sample.label(row)];
      hits += std::count_if(scores, scores + sample.classes,
                            [own](float other) { return other > own; }) < k;
    }
    numbers[0] = static_cast<float>(static_cast<double>(hits) / static_cast<double>(sample.rows));
  };
  return make_counted_metric(
      {.kind = "top_k_accuracy",
       .width = always(1),
       .count = count,
       .most_width = 1,
       .result = [](std::span<const double> s, double samples) { return s[0] / samples; }});
}

MetricPtr make_metric(const Precision& spec) {
  return make_positives("precision", spec.thresholds, true);
}
MetricPtr make_metric(const Recall& spec) {
  return make_positives("recall", spec.thresholds, false);
}

// Keras's thresholds: evenly spaced, the first and last just outside [0, 1]; trapezoids between
// them.
MetricPtr make_metric(const AUC& spec) {
  if (spec.num_thresholds < 2 || spec.num_thresholds > 10000)
    throw ConfigError(
        fmt::format("[AUC] num_thresholds; expected 2 to 10000; got {}", spec.num_thresholds));
  const std::int64_t steps = spec.num_thresholds - 1;
  // Numbers: positives and negatives by how many thresholds they lie above.
  const auto count = [steps](const MetricSample& sample, float* numbers) {
    for (std::int64_t row = 0; row < sample.rows; ++row) {
      for (std::int64_t c = 0; c < sample.classes; ++c) {
        const double p = static_cast<double>(sample.prediction[row * sample.classes + c]);
        const double scaled = std::ceil(std::clamp(p, 0.0, 1.0) * static_cast<double>(steps));
        const auto above =
            p >= 1 ? steps : std::max<std::int64_t>(static_cast<std::int64_t>(scaled), 1);
        numbers[2 * above + (sample.truth(row, c) > 0.5 ? 0 : 1)] += 1;
      }
    }
  };
  const auto result = [steps](std::span<const double> s, double) {
    double positives = 0, negatives = 0, area = 0;
    for (std::int64_t i = 0; i <= steps; ++i) {
      positives += s[static_cast<std::size_t>(2 * i)];
      negatives += s[static_cast<std::size_t>(2 * i + 1)];
    }
    double true_rate = 0, false_rate = 0, hits = 0, alarms = 0;
    for (std::int64_t i = steps; i >= 0; --i) {
      hits += s[static_cast<std::size_t>(2 * i)];
      alarms += s[static_cast<std::size_t>(2 * i + 1)];
      const double next_true = ratio(hits, positives), next_false = ratio(alarms, negatives);
      area += (next_false - false_rate) * (next_true + true_rate) / 2;
      true_rate = next_true;
      false_rate = next_false;
    }
    return area;
  };
  return make_counted_metric({.kind = "auc",
                              .width = always(2 * (steps + 1)),
                              .count = count,
                              .most_width = static_cast<std::size_t>(2 * (steps + 1)),
                              .result = result});
}

MetricPtr make_metric(const F1Score& spec) {
  if (spec.average != "macro" && spec.average != "micro" && spec.average != "weighted") {
    throw ConfigError(fmt::format(
        "[F1Score] average; expected 'macro', 'micro' or 'weighted'; got '{}'", spec.average));
  }
  // The number of classes, then for each: true positives, false positives, false negatives.
  const auto count = [threshold = spec.threshold](const MetricSample& sample, float* numbers) {
    numbers[0] = static_cast<float>(sample.classes);
    for (std::int64_t row = 0; row < sample.rows; ++row) {
      const std::int64_t best = sample.predicted(row);
      for (std::int64_t c = 0; c < sample.classes; ++c) {
        const double p = static_cast<double>(sample.prediction[row * sample.classes + c]);
        const bool predicted = threshold ? p > *threshold : c == best;
        const bool is = sample.truth(row, c) > 0.5;
        if (predicted || is) numbers[1 + 3 * c + (predicted && is ? 0 : predicted ? 1 : 2)] += 1;
      }
    }
  };
  const auto result = [average = spec.average](std::span<const double> s, double samples) {
    double hits = 0, misses = 0, sum = 0, weights = 0;
    const auto classes = static_cast<std::size_t>(s[0] / samples);
    for (std::size_t c = 1; c < 1 + 3 * classes; c += 3) {
      const double weight = average == "weighted" ? s[c] + s[c + 2] : 1;
      hits += s[c];
      misses += s[c + 1] + s[c + 2];
      sum += weight * ratio(2 * s[c], 2 * s[c] + s[c + 1] + s[c + 2]);
      weights += weight;
    }
    return average == "micro" ? ratio(2 * hits, 2 * hits + misses) : ratio(sum, weights);
  };
  return make_counted_metric({.kind = "f1_score",
                              .width = [](std::int64_t classes) { return 1 + 3 * classes; },
                              .count = count,
                              .most_width = 1 + 3 * kMostClasses,
                              .result = result});
}

MetricPtr make_metric(const MeanIoU& spec) {
  if (spec.num_classes < 2 || spec.num_classes > 256)
    throw ConfigError(
        fmt::format("[MeanIoU] num_classes; expected 2 to 256; got {}", spec.num_classes));
  const std::int64_t classes = spec.num_classes;
  // A matrix of true class by predicted class; one probability means class 1 above a half.
  const auto count = [classes](const MetricSample& sample, float* numbers) {
    for (std::int64_t row = 0; row < sample.rows; ++row) {
      const bool single = sample.classes == 1;
      const std::int64_t predicted = single ? sample.prediction[row] > 0.5f : sample.predicted(row);
      const std::int64_t label = single ? sample.truth(row, 0) > 0.5 : sample.label(row);
      numbers[label * classes + predicted] += 1;
    }
  };
  const auto result = [classes](std::span<const double> s, double) {
    double sum = 0, present = 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      double either = 0;
      for (std::int64_t other = 0; other < classes; ++other)
        either += s[static_cast<std::size_t>(c * classes + other)] +
                  s[static_cast<std::size_t>(other * classes + c)];
      const double both = s[static_cast<std::size_t>(c * classes + c)];
      either -= both;
      if (either <= 0) continue;
      sum += both / either;
      present += 1;
    }
    return ratio(sum, present);
  };
  const auto width = [classes](std::int64_t given) {
    if (given != classes && !(given == 1 && classes == 2))
      throw ConfigError(fmt::format(
          "[MeanIoU] num_classes; expected {} as the predictions have; got {}", given, classes));
    return classes * classes;
  };
  return make_counted_metric({.kind = "mean_iou",
                              .width = width,
                              .count = count,
                              .most_width = static_cast<std::size_t>(classes * classes),
                              .result = result});
}

MetricPtr make_metric(const MeanSquaredErrorMetric&) {
  return make_error("mean_squared_error", [](double error) { return error * error; });
}
MetricPtr make_metric(const MeanAbsoluteErrorMetric&) {
  return make_error("mean_absolute_error", [](double error) { return std::abs(error); });
}

}  // namespace surefit
