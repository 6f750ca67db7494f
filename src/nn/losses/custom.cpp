// SPDX-License-Identifier: Apache-2.0
// Losses that are defined in a user's program.
#include "surefit/losses/custom.hpp"

#include "nn/losses/pointwise.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

class CustomLossImpl final : public LossImpl {
 public:
  CustomLossImpl(std::shared_ptr<const CustomLoss> loss, std::string_view kind)
      : loss_(std::move(loss)), kind_(kind) {}
  LabelSpec labels(const Shape& prediction) const override {
    return {loss_->target_shape(prediction), DType::kFloat32, 0};
  }
  LossNodes build(Graph& graph, ValueId prediction, ValueId labels, bool training) const override {
    ValueType type;
    type.shape = graph.value(prediction).type.shape;
    const std::size_t count = type.stored_count();
    const std::size_t targets = graph.value(labels).type.stored_count();
    const auto run = [loss = loss_, count, targets, training](const Task& task) {
      const auto scale =
          static_cast<float>(task.step->loss_scale / static_cast<double>(task.step->samples));
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        std::span<float> gradient;
        if (training) gradient = {task.outputs[1].at(n), count};
        *task.outputs[0].at<double>(n) = loss->evaluate({task.inputs[0].at(n), count},
                                                        {task.inputs[1].at(n), targets}, gradient);
        for (float& slope : gradient) slope *= scale;
      }
    };
    return emit_loss(graph,
                     make_sample_op({.kind = kind_,
                                     .outputs = loss_types(type, training),
                                     .layout = Layout::kPlain,
                                     .flops_per_element = 10,
                                     .run = run}),
                     prediction, labels, training);
  }

 private:
  std::shared_ptr<const CustomLoss> loss_;
  std::string_view kind_;
};

}  // namespace

LossPtr make_custom_loss(std::shared_ptr<const CustomLoss> loss, std::string_view kind) {
  return std::make_shared<CustomLossImpl>(std::move(loss), kind);
}

}  // namespace surefit
