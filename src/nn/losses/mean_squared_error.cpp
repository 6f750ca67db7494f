// SPDX-License-Identifier: Apache-2.0
#include "nn/loss.hpp"
#include "nn/ops/kernel.hpp"

namespace surefit {
namespace {

class MeanSquaredErrorOp final : public Op {
 public:
  explicit MeanSquaredErrorOp(bool training) : training_(training) {}
  std::string_view kind() const override { return "mean_squared_error"; }
  Layout preferred_layout(std::size_t, const ValueType&) const override { return Layout::kPlain; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    ValueType loss;
    loss.shape = Shape{};
    loss.dtype = DType::kFloat64;
    std::vector<ValueType> types = {loss};
    if (training_) types.push_back(inputs[0]);
    return types;
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.flops_per_sample = static_cast<double>(inputs[0].stored_count()) * 5;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own", [count = inputs[0].stored_count(),
                               training = training_](const Task& task) {
      const double scale = task.step->loss_scale * 2 /
                           (static_cast<double>(task.step->samples) * static_cast<double>(count));
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        const float* prediction = task.inputs[0].at(n);
        const float* target = task.inputs[1].at(n);
        double sum = 0;
        for (std::size_t i = 0; i < count; ++i) {
          const double difference =
              static_cast<double>(prediction[i]) - static_cast<double>(target[i]);
          sum += difference * difference;
          if (training) task.outputs[1].at(n)[i] = static_cast<float>(difference * scale);
        }
        *task.outputs[0].at<double>(n) = sum / static_cast<double>(count);
      }
    });
  }

 private:
  bool training_;
};

class MeanSquaredErrorLoss final : public LossImpl {
 public:
  LabelSpec labels(const Shape& prediction) const override {
    return {prediction, DType::kFloat32, 0};
  }
  LossNodes build(Graph& graph, ValueId prediction, ValueId labels, bool training) const override {
    const auto outputs = graph.add(std::make_shared<MeanSquaredErrorOp>(training),
                                   {prediction, labels}, "loss", Phase::kForward);
    return {outputs[0], training ? outputs[1] : kNone, graph.nodes().back().inputs[0]};
  }
};

}  // namespace

LossPtr make_loss(const MeanSquaredError&) {
  return std::make_shared<MeanSquaredErrorLoss>();
}

}  // namespace surefit
