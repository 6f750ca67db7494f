// SPDX-License-Identifier: Apache-2.0
#include "nn/metrics/counted.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "nn/ops/kernel.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

std::int64_t largest(const float* row, std::int64_t classes) {
  return std::max_element(row, row + classes) - row;
}

class CountedMetricImpl final : public MetricImpl {
 public:
  explicit CountedMetricImpl(CountedMetric metric) : metric_(std::move(metric)) {}

  ValueId build(Graph& graph, ValueId prediction, ValueId labels,
                const LabelSpec& spec) const override {
    const Shape& shape = graph.value(prediction).type.shape;
    const std::int64_t classes = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
    const std::int64_t width = metric_.width(classes);
    if (static_cast<std::size_t>(width) > metric_.most_width) {
      throw ConfigError(fmt::format("[{}] {} classes are too many", metric_.kind, classes));
    }
    MetricSample sample;
    sample.classes = classes;
    sample.rows = static_cast<std::int64_t>(shape.count()) / classes;
    const bool whole = spec.dtype == DType::kInt32;
    const auto run = [sample, whole, width, count = metric_.count](const Task& task) {
      MetricSample own = sample;
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        own.prediction = task.inputs[0].at(n);
        own.target = whole ? nullptr : task.inputs[1].at(n);
        own.labels = whole ? task.inputs[1].at<std::int32_t>(n) : nullptr;
        std::fill_n(task.outputs[0].at(n), width, 0.0f);
        count(own, task.outputs[0].at(n));
      }
    };
    return graph.add1(make_sample_op({.kind = metric_.kind,
                                      .outputs = {vector_type(width, DType::kFloat32, true)},
                                      .layout = Layout::kPlain,
                                      .flops_per_element = 10,
                                      .run = run}),
                      {prediction, labels}, std::string(metric_.kind), Phase::kForward);
  }
  std::size_t state_size() const override { return metric_.most_width + 1; }
  void update(std::span<double> state, std::span<const float> sample) const override {
    for (std::size_t i = 0; i < sample.size(); ++i) state[i] += static_cast<double>(sample[i]);
    state.back() += 1;
  }
  double result(std::span<const double> state) const override {
    return state.back() > 0 ? metric_.result(state.first(metric_.most_width), state.back()) : 0;
  }

 private:
  CountedMetric metric_;
};

}  // namespace

std::int64_t MetricSample::label(std::int64_t row) const {
  return labels != nullptr ? labels[row] : largest(target + row * classes, classes);
}
std::int64_t MetricSample::predicted(std::int64_t row) const {
  return largest(prediction + row * classes, classes);
}
double MetricSample::truth(std::int64_t row, std::int64_t c) const {
  if (target != nullptr) return static_cast<double>(target[row * classes + c]);
  if (classes == 1) return static_cast<double>(labels[row]);
  return labels[row] == c ? 1 : 0;
}

MetricPtr make_counted_metric(CountedMetric metric) {
  return std::make_shared<CountedMetricImpl>(std::move(metric));
}

}  // namespace surefit
