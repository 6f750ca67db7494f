// SPDX-License-Identifier: Apache-2.0
// Sparse and categorical cross-entropy. Behind a softmax both work on its input: exact where
// probabilities have already lost the difference to 0 and 1.
#include <array>

#include "base/check.hpp"
#include "engine/kernels/table.hpp"
#include "nn/losses/pointwise.hpp"
#include "nn/ops/softmax.hpp"

namespace surefit {
namespace {

struct CrossEntropy {
  bool sparse = true;
  bool logits = true;
  double smoothing = 0;
};

// Rows of scores that one call of the kernel takes.
constexpr std::int64_t kRows = 64;

std::int64_t classes_of(const Shape& prediction) {
  return prediction[prediction.rank() - 1];
}

// (prediction, labels) -> loss per sample and, in training, the gradient of the batch's mean.
class CrossEntropyOp final : public Op {
 public:
  CrossEntropyOp(const CrossEntropy& options, bool training)
      : options_(options), training_(training) {}
  std::string_view kind() const override { return "cross_entropy"; }
  Layout preferred_layout(std::size_t, const ValueType&) const override { return Layout::kPlain; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return loss_types(inputs[0], training_);
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.samples_per_task = 16;
    traits.flops_per_sample = static_cast<double>(inputs[0].stored_count()) * 30;
    traits.thread_scratch_bytes =
        options_.smoothing > 0
            ? static_cast<std::size_t>(kRows * classes_of(inputs[0].shape)) * sizeof(float)
            : 0;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    const std::int64_t classes = classes_of(inputs[0].shape);
    const std::int64_t rows = static_cast<std::int64_t>(inputs[0].stored_count()) / classes;
    return make_kernel(
        "own", [classes, rows, options = options_, training = training_](const Task& task) {
          kernels::CrossEntropyArgs args;
          args.classes = args.src_stride = args.targets_stride = args.diff_src_stride = classes;
          args.weight = static_cast<float>(task.step->loss_scale /
                                           static_cast<double>(task.step->samples * rows));
          std::array<double, kRows> losses;
          args.loss = losses.data();
          const auto& table = kernels::table().loss;
          const auto run =
              options.logits ? table.softmax_cross_entropy : table.cross_entropy_probabilities;
          for (std::int64_t n = task.begin; n < task.end; ++n) {
            double sum = 0;
            for (std::int64_t row = 0; row < rows; row += kRows) {
              args.sample_end = std::min(kRows, rows - row);
              args.src = task.inputs[0].at(n) + row * classes;
              if (options.sparse) {
                args.labels = task.inputs[1].at<std::int32_t>(n) + row;
              } else {
                args.targets = targets(task, task.inputs[1].at(n) + row * classes,
                                       args.sample_end * classes, classes, options.smoothing);
              }
              args.diff_src = training ? task.outputs[1].at(n) + row * classes : nullptr;
              run(args);
              for (std::int64_t i = 0; i < args.sample_end; ++i)
                sum += losses[static_cast<std::size_t>(i)];
            }
            *task.outputs[0].at<double>(n) = sum / static_cast<double>(rows);
          }
        });
  }

 private:
  // Keras's label smoothing: t (1 - s) + s / classes.
  static const float* targets(const Task& task, const float* given, std::int64_t count,
                              std::int64_t classes, double smoothing) {
    if (smoothing == 0) return given;
    auto* smooth = reinterpret_cast<float*>(task.thread_scratch);
    for (std::int64_t i = 0; i < count; ++i) {
      smooth[i] = given[i] * static_cast<float>(1 - smoothing) +
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
    if (prediction.rank() == 0 || classes_of(prediction) < 2) {
      throw ConfigError(
          fmt::format("[loss] cross-entropy needs one score per class, two or more; expected (..., "
                      "classes); got {}",
                      prediction.to_string()));
    }
    const auto dims = prediction.dims();
    const Shape rows(std::vector<std::int64_t>(dims.begin(), dims.end() - 1));
    return options_.sparse ? LabelSpec{rows, DType::kInt32, classes_of(prediction)}
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
    return emit_loss(graph, std::make_shared<CrossEntropyOp>(options, training), root, labels,
                     training);
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
