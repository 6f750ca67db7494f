// SPDX-License-Identifier: Apache-2.0
// Metrics that are defined in a user's program: a node lays prediction and target of each sample
// side by side, and the user's function gets them in sample order.
#include "surefit/metrics/custom.hpp"

#include <algorithm>
#include <bit>

#include "nn/metric.hpp"
#include "nn/ops/kernel.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

class CustomMetricImpl final : public MetricImpl {
 public:
  CustomMetricImpl(std::shared_ptr<const CustomMetric> metric, std::string_view kind)
      : metric_(std::move(metric)), kind_(kind) {}

  // A row is how many predictions there are (bits of a whole number), these, and the targets.
  ValueId build(Graph& graph, ValueId prediction, ValueId labels,
                const LabelSpec& spec) const override {
    const std::size_t count = graph.value(prediction).type.shape.count();
    const std::size_t targets = spec.shape.count();
    const bool whole = spec.dtype == DType::kInt32;
    const auto run = [count, targets, whole](const Task& task) {
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        float* row = task.outputs[0].at(n);
        row[0] = std::bit_cast<float>(static_cast<std::int32_t>(count));
        std::copy_n(task.inputs[0].at(n), count, row + 1);
        if (whole) {
          const auto* label = task.inputs[1].at<std::int32_t>(n);
          std::transform(label, label + targets, row + 1 + count,
                         [](std::int32_t value) { return static_cast<float>(value); });
        } else {
          std::copy_n(task.inputs[1].at(n), targets, row + 1 + count);
        }
      }
    };
    const auto width = static_cast<std::int64_t>(1 + count + targets);
    return graph.add1(make_sample_op({.kind = kind_,
                                      .outputs = {vector_type(width, DType::kFloat32, true)},
                                      .layout = Layout::kPlain,
                                      .run = run}),
                      {prediction, labels}, "metrics", Phase::kForward);
  }
  std::size_t state_size() const override { return metric_->state_size(); }
  void update(std::span<double> state, std::span<const float> row) const override {
    const auto count = static_cast<std::size_t>(std::bit_cast<std::int32_t>(row[0]));
    metric_->update(state, row.subspan(1, count), row.subspan(1 + count));
  }
  double result(std::span<const double> state) const override { return metric_->result(state); }

 private:
  std::shared_ptr<const CustomMetric> metric_;
  std::string_view kind_;
};

}  // namespace

MetricPtr make_custom_metric(std::shared_ptr<const CustomMetric> metric, std::string_view kind) {
  return std::make_shared<CustomMetricImpl>(std::move(metric), kind);
}

}  // namespace surefit
