// SPDX-License-Identifier: Apache-2.0
// Losses that are the mean of a function of each element and its target.
#pragma once

#include "nn/loss.hpp"
#include "nn/ops/kernel.hpp"

namespace surefit {

// Keras clips probabilities by 1e-7 in float32, where 1 - 1e-7 is 1 - 2^-23.
inline constexpr double kEpsilon = 1e-7, kMostProbability = 1 - 0x1p-23;

struct LossTerm {
  double value = 0, slope = 0;  // the slope with respect to the prediction
};

// The outputs of every loss node: a number per sample and, in training, the gradient.
inline std::vector<ValueType> loss_types(const ValueType& prediction, bool training) {
  ValueType loss;
  loss.shape = Shape{};
  loss.dtype = DType::kFloat64;
  std::vector<ValueType> types = {loss};
  if (training) types.push_back(prediction);
  return types;
}

// Emits a loss node; the node may convert its input, and the gradient belongs to what it really
// reads.
inline LossNodes emit_loss(Graph& graph, std::shared_ptr<const Op> op, ValueId prediction,
                           ValueId labels, bool training) {
  const auto outputs = graph.add(std::move(op), {prediction, labels}, "loss", Phase::kForward);
  return {outputs[0], training ? outputs[1] : kNone, graph.nodes().back().inputs[0]};
}

// Function: (prediction, target) -> LossTerm, in double.
template <typename Function>
class PointwiseLossOp final : public Op {
 public:
  PointwiseLossOp(std::string_view kind, Function function, bool training)
      : kind_(kind), function_(function), training_(training) {}
  std::string_view kind() const override { return kind_; }
  Layout preferred_layout(std::size_t, const ValueType&) const override { return Layout::kPlain; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return loss_types(inputs[0], training_);
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.flops_per_sample = static_cast<double>(inputs[0].stored_count()) * 10;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own", [count = inputs[0].stored_count(), function = function_,
                               training = training_](const Task& task) {
      const double share = 1 / static_cast<double>(count);
      const double scale = task.step->loss_scale * share / static_cast<double>(task.step->samples);
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        const float* prediction = task.inputs[0].at(n);
        const float* target = task.inputs[1].at(n);
        double sum = 0;
        for (std::size_t i = 0; i < count; ++i) {
          const LossTerm term =
              function(static_cast<double>(prediction[i]), static_cast<double>(target[i]));
          sum += term.value;
          if (training) task.outputs[1].at(n)[i] = static_cast<float>(term.slope * scale);
        }
        *task.outputs[0].at<double>(n) = sum * share;
      }
    });
  }

 private:
  std::string_view kind_;  // a literal
  Function function_;
  bool training_;
};

template <typename Function>
class PointwiseLoss final : public LossImpl {
 public:
  PointwiseLoss(std::string_view kind, Function function) : kind_(kind), function_(function) {}
  LabelSpec labels(const Shape& prediction) const override {
    return {prediction, DType::kFloat32, 0};
  }
  LossNodes build(Graph& graph, ValueId prediction, ValueId labels, bool training) const override {
    return emit_loss(graph, std::make_shared<PointwiseLossOp<Function>>(kind_, function_, training),
                     prediction, labels, training);
  }

 private:
  std::string_view kind_;
  Function function_;
};

template <typename Function>
LossPtr make_pointwise_loss(std::string_view kind, Function function) {
  return std::make_shared<PointwiseLoss<Function>>(kind, function);
}

}  // namespace surefit
