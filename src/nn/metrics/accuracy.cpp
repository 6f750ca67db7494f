// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"
#include "nn/metric.hpp"
#include "nn/ops/kernel.hpp"
#include "nn/ops/softmax.hpp"

namespace surefit {
namespace {

std::int64_t argmax(const float* row, std::int64_t count) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < count; ++i) {
    if (row[i] > row[best]) best = i;
  }
  return best;
}

class AccuracyOp final : public Op {
 public:
  explicit AccuracyOp(bool sparse) : sparse_(sparse) {}
  std::string_view kind() const override { return "accuracy"; }
  Layout preferred_layout(std::size_t, const ValueType&) const override { return Layout::kPlain; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    ValueType type;
    type.shape = Shape{1};
    return {type};
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.samples_per_task = 64;
    traits.flops_per_sample = static_cast<double>(inputs[0].stored_count());
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    const std::int64_t classes = inputs[0].shape[inputs[0].shape.rank() - 1];
    const std::int64_t rows = static_cast<std::int64_t>(inputs[0].stored_count()) / classes;
    return make_kernel("own", [classes, rows, sparse = sparse_](const Task& task) {
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        std::int64_t right = 0;
        for (std::int64_t row = 0; row < rows; ++row) {
          const float* scores = task.inputs[0].at(n) + row * classes;
          if (classes == 1) {  // one probability: above a half means 1
            const bool label = sparse ? task.inputs[1].at<std::int32_t>(n)[row] != 0
                                      : task.inputs[1].at(n)[row] > 0.5f;
            right += (scores[0] > 0.5f) == label;
            continue;
          }
          const std::int64_t label = sparse ? task.inputs[1].at<std::int32_t>(n)[row]
                                            : argmax(task.inputs[1].at(n) + row * classes, classes);
          right += argmax(scores, classes) == label;
        }
        *task.outputs[0].at(n) =
            static_cast<float>(static_cast<double>(right) / static_cast<double>(rows));
      }
    });
  }

 private:
  bool sparse_;
};

class AccuracyMetric final : public MetricImpl {
 public:
  ValueId build(Graph& graph, ValueId prediction, ValueId labels,
                const LabelSpec& spec) const override {
    if (graph.value(prediction).type.shape.rank() == 0) {
      throw ConfigError("[accuracy] needs one score per class");
    }
    // Softmax does not change which score is the largest; reading its input lets it go unused.
    const NodeId producer = graph.value(prediction).producer;
    if (producer != kNone && graph.value(prediction).view_of == kNone &&
        dynamic_cast<const SoftmaxOp*>(graph.node(producer).op.get()) != nullptr) {
      prediction = graph.node(producer).inputs[0];
    }
    return graph.add1(std::make_shared<AccuracyOp>(spec.dtype == DType::kInt32),
                      {prediction, labels}, "accuracy", Phase::kForward);
  }
  std::size_t state_size() const override { return 2; }
  void update(std::span<double> state, std::span<const float> sample) const override {
    state[0] += static_cast<double>(sample[0]);
    state[1] += 1;
  }
  double result(std::span<const double> state) const override {
    return state[1] > 0 ? state[0] / state[1] : 0;
  }
};

}  // namespace

MetricPtr make_metric(const Accuracy&) {
  return std::make_shared<AccuracyMetric>();
}

}  // namespace surefit
