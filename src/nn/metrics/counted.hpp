// SPDX-License-Identifier: Apache-2.0
// Metrics that are a function of numbers summed over samples.
#pragma once

#include <functional>

#include "nn/metric.hpp"

namespace surefit {

// What a metric sees of one sample: predictions and labels in rows of classes. Labels are whole
// numbers (one per row) where the loss takes those, else floats of the predictions' shape.
struct MetricSample {
  const float* prediction = nullptr;
  const float* target = nullptr;         // null with whole-number labels
  const std::int32_t* labels = nullptr;  // null with float labels
  std::int64_t rows = 0, classes = 0;

  std::int64_t label(std::int64_t row) const;      // the class of a row
  std::int64_t predicted(std::int64_t row) const;  // the largest prediction, the first of equals
  double truth(std::int64_t row, std::int64_t c) const;
};

struct CountedMetric {
  std::string_view kind;  // a literal
  // Numbers per sample for rows of this many classes; throws ConfigError where they do not fit.
  std::function<std::int64_t(std::int64_t classes)> width;
  std::function<void(const MetricSample&, float* numbers)> count;
  std::size_t most_width = 0;  // size of the state: sums of the numbers, then the number of samples
  std::function<double(std::span<const double> sums, double samples)> result;
};

MetricPtr make_counted_metric(CountedMetric metric);

}  // namespace surefit
