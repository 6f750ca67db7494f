// SPDX-License-Identifier: Apache-2.0
// 1 - (2 sum(p t) + e) / (sum p + sum t + e), as Keras; over the whole batch the sums are a node of
// their own, so that the loss stays exact however the batch is cut.
#include <algorithm>
#include <fmt/format.h>

#include "nn/losses/pointwise.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

struct Sums {
  double both = 0, all = 0;  // sum(p t), sum p + sum t
};

Sums sums_of(const float* p, const float* t, std::size_t count) {
  Sums sums;
  for (std::size_t i = 0; i < count; ++i) {
    sums.both += static_cast<double>(p[i]) * static_cast<double>(t[i]);
    sums.all += static_cast<double>(p[i]) + static_cast<double>(t[i]);
  }
  return sums;
}

// Loss and gradient of one sample from the sums it belongs to.
double finish(const Sums& sums, const float* t, std::size_t count, double scale, float* gradient) {
  const double top = 2 * sums.both + kEpsilon, bottom = sums.all + kEpsilon;
  for (std::size_t i = 0; gradient != nullptr && i < count; ++i) {
    const double slope = (top - 2 * static_cast<double>(t[i]) * bottom) / (bottom * bottom);
    gradient[i] = static_cast<float>(slope * scale);
  }
  return 1 - top / bottom;
}

class DiceLoss final : public LossImpl {
 public:
  explicit DiceLoss(const Dice& spec) : axes_(spec.axis.values) {
    std::sort(axes_.begin(), axes_.end());
  }
  LabelSpec labels(const Shape& prediction) const override {
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i] == static_cast<std::int64_t>(i) + 1 && axes_.size() == prediction.rank())
        continue;
      throw ConfigError(fmt::format("[Dice] axis; expected null or all axes of a sample, 1 to {}",
                                    prediction.rank()));
    }
    return {prediction, DType::kFloat32, 0};
  }
  LossNodes build(Graph& graph, ValueId prediction, ValueId labels, bool training) const override {
    ValueType type;
    type.shape = graph.value(prediction).type.shape;
    const std::size_t count = type.shape.count();
    const bool whole_batch = axes_.empty();
    prediction = graph.in_layout(prediction, Layout::kPlain, "loss", Phase::kForward);
    std::vector<ValueId> inputs = {prediction, labels};
    if (whole_batch) {
      const auto add = [count](const Task& task) {
        auto* total = task.outputs[0].at<double>();
        for (std::int64_t n = task.begin; n < task.end; ++n) {
          const Sums sums = sums_of(task.inputs[0].at(n), task.inputs[1].at(n), count);
          total[0] = n == 0 ? sums.both : total[0] + sums.both;
          total[1] = n == 0 ? sums.all : total[1] + sums.all;
        }
      };
      inputs.push_back(
          graph.add1(make_reduction_op({.kind = "dice_sums",
                                        .outputs = {vector_type(2, DType::kFloat64)},
                                        .layout = Layout::kPlain,
                                        .flops_per_sample = static_cast<double>(count) * 3,
                                        .run = add}),
                     {prediction, labels}, "loss", Phase::kForward));
    }
    const auto run = [count, training, whole_batch](const Task& task) {
      const double share = whole_batch ? 1.0 : 1 / static_cast<double>(task.step->samples);
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        const float* t = task.inputs[1].at(n);
        Sums sums;
        if (whole_batch) {
          sums = {task.inputs[2].at<double>()[0], task.inputs[2].at<double>()[1]};
        } else {
          sums = sums_of(task.inputs[0].at(n), t, count);
        }
        *task.outputs[0].at<double>(n) = finish(sums, t, count, task.step->loss_scale * share,
                                                training ? task.outputs[1].at(n) : nullptr);
      }
    };
    const auto outputs = graph.add(make_sample_op({.kind = "dice",
                                                   .outputs = loss_types(type, training),
                                                   .layout = Layout::kPlain,
                                                   .flops_per_element = 6,
                                                   .run = run}),
                                   inputs, "loss", Phase::kForward);
    return {outputs[0], training ? outputs[1] : kNone, prediction};
  }

 private:
  std::vector<std::int64_t> axes_;
};

}  // namespace

LossPtr make_loss(const Dice& spec) {
  return std::make_shared<DiceLoss>(spec);
}

}  // namespace surefit
