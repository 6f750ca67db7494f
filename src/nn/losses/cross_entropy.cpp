// SPDX-License-Identifier: Apache-2.0
// Sparse and categorical cross-entropy. Behind a softmax both work on its input: exact where
// probabilities have already lost the difference to 0 and 1.
#include "base/check.hpp"
#include "engine/kernels/table.hpp"
#include "nn/loss.hpp"
#include "nn/ops/kernel.hpp"
#include "nn/ops/softmax.hpp"

namespace surefit {
namespace {

struct CrossEntropy {
  bool sparse = true;
  bool logits = true;
  double smoothing = 0;
};

// (prediction, labels) -> loss per sample and, in training, the gradient of the batch's mean.
class CrossEntropyOp final : public Op {
 public:
  CrossEntropyOp(const CrossEntropy& options, bool training)
      : options_(options), training_(training) {}
  std::string_view kind() const override { return "cross_entropy"; }
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
    traits.samples_per_task = 16;
    traits.flops_per_sample = static_cast<double>(inputs[0].stored_count()) * 30;
    traits.thread_scratch_bytes = options_.smoothing > 0 ? inputs[0].stored_bytes() : 0;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    const std::int64_t classes = inputs[0].shape[0];
    return make_kernel("own", [classes, options = options_,
                               training = training_](const Task& task) {
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        kernels::CrossEntropyArgs args;
        args.src = task.inputs[0].at(n);
        args.classes = classes;
        if (options.sparse) {
          args.labels = task.inputs[1].at<std::int32_t>(n);
        } else {
          args.targets = targets(task, n, classes, options.smoothing);
        }
        args.weight =
            static_cast<float>(task.step->loss_scale / static_cast<double>(task.step->samples));
        args.loss = task.outputs[0].at<double>(n);
        args.diff_src = training ? task.outputs[1].at(n) : nullptr;
        args.sample_end = 1;
        const auto& table = kernels::table().loss;
        (options.logits ? table.softmax_cross_entropy : table.cross_entropy_probabilities)(args);
      }
    });
  }

 private:
  // Keras's label smoothing: t (1 - s) + s / classes.
  static const float* targets(const Task& task, std::int64_t n, std::int64_t classes,
                              double smoothing) {
    const float* given = task.inputs[1].at(n);
    if (smoothing == 0) return given;
    auto* smooth = reinterpret_cast<float*>(task.thread_scratch);
    for (std::int64_t c = 0; c < classes; ++c) {
      smooth[c] = given[c] * static_cast<float>(1 - smoothing) +
                  static_cast<float>(smoothing / static_cast<double>(classes));
    }
    return smooth;
  }
  CrossEntropy options_;
  bool training_;
};

class CrossEntropyLoss final : public LossImpl {
 public:
  explicit CrossEntropyLoss(const CrossEntropy& options) : options_(options) {}

  LabelSpec labels(const Shape& prediction) const override {
    if (prediction.rank() != 1) {
      throw ConfigError(
          fmt::format("[loss] cross-entropy needs one score per class; expected (classes,); got {}",
                      prediction.to_string()));
    }
    return options_.sparse ? LabelSpec{Shape{}, DType::kInt32, prediction[0]}
                           : LabelSpec{prediction, DType::kFloat32, 0};
  }

  LossNodes build(Graph& graph, ValueId prediction, ValueId labels, bool training) const override {
    CrossEntropy options = options_;
    ValueId root = prediction;
    const NodeId producer = graph.value(prediction).producer;
    // A flattened softmax is another function of its row: only the softmax of just this row may be
    // looked through.
    if (!options.logits && producer != kNone && graph.value(prediction).view_of == kNone &&
        dynamic_cast<const SoftmaxOp*>(graph.node(producer).op.get()) != nullptr) {
      options.logits = true;
      root = graph.node(producer).inputs[0];
    }
    const auto outputs = graph.add(std::make_shared<CrossEntropyOp>(options, training),
                                   {root, labels}, "loss", Phase::kForward);
    // The node may have converted its input; the gradient belongs to what it really read.
    root = graph.nodes().back().inputs[0];
    return {outputs[0], training ? outputs[1] : kNone, root};
  }

 private:
  CrossEntropy options_;
};

}  // namespace

LossPtr make_loss(const SparseCategoricalCrossentropy& spec) {
  return std::make_shared<CrossEntropyLoss>(CrossEntropy{true, spec.from_logits, 0});
}

LossPtr make_loss(const CategoricalCrossentropy& spec) {
  if (spec.label_smoothing < 0 || spec.label_smoothing > 1) {
    throw ConfigError(
        fmt::format("[CategoricalCrossentropy] label_smoothing; expected 0 to 1; got {}",
                    spec.label_smoothing));
  }
  return std::make_shared<CrossEntropyLoss>(
      CrossEntropy{false, spec.from_logits, spec.label_smoothing});
}

}  // namespace surefit
