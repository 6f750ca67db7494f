// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/softmax.hpp"

#include "engine/kernels/table.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/kernel.hpp"

namespace surefit {
namespace {

struct Rows {
  std::int64_t count = 1, classes = 1;
};
Rows rows_of(const ValueType& type) {
  const std::int64_t classes = type.shape[type.shape.rank() - 1];
  return {static_cast<std::int64_t>(type.stored_count()) / classes, classes};
}

OpTraits softmax_traits(const ValueType& type) {
  OpTraits traits;
  traits.flops_per_sample = static_cast<double>(type.stored_count()) * 20;
  traits.samples_per_task = 16;
  return traits;
}

class SoftmaxBackwardOp final : public Op {
 public:
  std::string_view kind() const override { return "softmax_backward"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {inputs[0]};
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits = softmax_traits(inputs[0]);
    traits.in_place_input = 1;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own", [rows = rows_of(inputs[0])](const Task& task) {
      kernels::SoftmaxBackwardArgs args;
      args.dst = task.inputs[0].at(task.begin);
      args.diff_dst = task.inputs[1].at(task.begin);
      args.diff_src = task.outputs[0].at(task.begin);
      args.dst_stride = args.diff_dst_stride = args.diff_src_stride = args.classes = rows.classes;
      args.sample_end = (task.end - task.begin) * rows.count;
      kernels::table().loss.softmax_backward(args);
    });
  }
};

}  // namespace

OpTraits SoftmaxOp::traits(std::span<const ValueType> inputs, std::span<const ValueType>) const {
  OpTraits traits = softmax_traits(inputs[0]);
  traits.in_place_input = 0;
  return traits;
}

std::unique_ptr<Kernel> SoftmaxOp::bind(std::span<const ValueType> inputs,
                                        std::span<const ValueType>, int) const {
  return make_kernel("own", [rows = rows_of(inputs[0])](const Task& task) {
    kernels::SoftmaxArgs args;
    args.src = task.inputs[0].at(task.begin);
    args.dst = task.outputs[0].at(task.begin);
    args.src_stride = args.dst_stride = args.classes = rows.classes;
    args.sample_end = (task.end - task.begin) * rows.count;
    kernels::table().loss.softmax(args);
  });
}

void SoftmaxOp::gradient(GradientBuilder& builder) const {
  builder.set_input_gradient(0, builder.emit1(std::make_shared<SoftmaxBackwardOp>(),
                                              {builder.output(0), builder.output_gradient(0)}));
}

}  // namespace surefit
