// SPDX-License-Identifier: Apache-2.0
#include "nn/losses/rowwise.hpp"

#include <fmt/format.h>

#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

class RowwiseLoss final : public LossImpl {
 public:
  RowwiseLoss(std::string_view kind, RowLoss row) : kind_(kind), row_(std::move(row)) {}
  LabelSpec labels(const Shape& prediction) const override {
    if (prediction.rank() == 0)
      throw ConfigError(
          fmt::format("[loss] {} needs one score per class; got a single number", kind_));
    return {prediction, DType::kFloat32, 0};
  }
  LossNodes build(Graph& graph, ValueId prediction, ValueId labels, bool training) const override {
    ValueType type;
    type.shape = graph.value(prediction).type.shape;
    const std::int64_t classes = type.shape[type.shape.rank() - 1];
    const std::int64_t rows = static_cast<std::int64_t>(type.shape.count()) / classes;
    const auto run = [classes, rows, training, row = row_](const Task& task) {
      auto* slope = reinterpret_cast<double*>(task.thread_scratch);
      const double scale = task.step->loss_scale / static_cast<double>(task.step->samples * rows);
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        double sum = 0;
        for (std::int64_t r = 0; r < rows; ++r) {
          sum += row(task.inputs[0].at(n) + r * classes, task.inputs[1].at(n) + r * classes,
                     classes, slope);
          if (!training) continue;
          float* to = task.outputs[1].at(n) + r * classes;
          for (std::int64_t c = 0; c < classes; ++c) to[c] = static_cast<float>(slope[c] * scale);
        }
        *task.outputs[0].at<double>(n) = sum / static_cast<double>(rows);
      }
    };
    return emit_loss(
        graph,
        make_sample_op({.kind = kind_,
                        .outputs = loss_types(type, training),
                        .layout = Layout::kPlain,
                        .thread_scratch_bytes = static_cast<std::size_t>(classes) * sizeof(double),
                        .run = run}),
        prediction, labels, training);
  }

 private:
  std::string_view kind_;
  RowLoss row_;
};

}  // namespace

LossPtr make_rowwise_loss(std::string_view kind, RowLoss row) {
  return std::make_shared<RowwiseLoss>(kind, std::move(row));
}

}  // namespace surefit
