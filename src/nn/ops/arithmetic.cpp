// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/arithmetic.hpp"

#include <algorithm>

#include "nn/losses/pointwise.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {

std::shared_ptr<const Op> make_map_op(const ValueType& given, Scalar function, Scalar slope) {
  // Plain: padding must stay zero, and a function need not map 0 to 0.
  ValueType type;
  type.shape = given.shape;
  const std::size_t count = type.stored_count();
  const auto run = [count, function](const Task& task) {
    for (std::int64_t n = task.begin; n < task.end; ++n)
      std::transform(task.inputs[0].at(n), task.inputs[0].at(n) + count, task.outputs[0].at(n),
                     function);
  };
  const auto backward = [count, slope](const Task& task) {
    for (std::int64_t n = task.begin; n < task.end; ++n) {
      const float* x = task.inputs[0].at(n);
      const float* dy = task.inputs[1].at(n);
      float* dx = task.outputs[0].at(n);
      for (std::size_t i = 0; i < count; ++i) dx[i] = dy[i] * slope(x[i]);
    }
  };
  const auto gradient = [type, backward](GradientBuilder& builder) {
    builder.set_input_gradient(0, builder.emit1(make_sample_op({.kind = "map_backward",
                                                                .outputs = {type},
                                                                .layout = Layout::kPlain,
                                                                .run = backward}),
                                                {builder.input(0), builder.output_gradient(0)}));
  };
  return make_sample_op({.kind = "map",
                         .outputs = {type},
                         .layout = Layout::kPlain,
                         .run = run,
                         .gradient = gradient});
}

LossNodes add_mean_loss(Graph& graph, ValueId value) {
  ValueType type;
  type.shape = graph.value(value).type.shape;
  const std::size_t count = type.stored_count();
  const auto run = [count](const Task& task) {
    const double share = 1 / static_cast<double>(count);
    const auto slope =
        static_cast<float>(task.step->loss_scale * share / static_cast<double>(task.step->samples));
    for (std::int64_t n = task.begin; n < task.end; ++n) {
      double sum = 0;
      for (std::size_t i = 0; i < count; ++i) sum += static_cast<double>(task.inputs[0].at(n)[i]);
      *task.outputs[0].at<double>(n) = sum * share;
      std::fill_n(task.outputs[1].at(n), count, slope);
    }
  };
  const auto outputs = graph.add(make_sample_op({.kind = "mean",
                                                 .outputs = loss_types(type, true),
                                                 .layout = Layout::kPlain,
                                                 .run = run}),
                                 {value}, "loss", Phase::kForward);
  return {outputs[0], outputs[1], graph.nodes().back().inputs[0]};
}

}  // namespace surefit
