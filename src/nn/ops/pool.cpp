// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/pool.hpp"

#include "engine/kernels/table.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/kernel.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

using kernels::PoolShape;

OpTraits pool_traits(const ValueType& input) {
  OpTraits traits;
  traits.flops_per_sample = static_cast<double>(input.stored_count()) * 2;
  return traits;
}

class MaxPoolBackwardOp final : public Op {
 public:
  MaxPoolBackwardOp(const PoolShape& shape, ValueType input)
      : shape_(shape), input_(std::move(input)) {}
  std::string_view kind() const override { return "max_pool_backward"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {input_}; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    return pool_traits(input_);
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    const PoolShape shape = shape_;
    const int blocks = channel_blocks(input_);
    return make_kernel("own", [shape, blocks](const Task& task) {
      kernels::MaxPoolBackwardArgs args;
      args.shape = shape;
      args.diff_dst = task.inputs[0].at(task.begin);
      args.diff_dst_stride = float_stride(task.inputs[0]);
      args.argmax = task.inputs[1].at<std::uint8_t>(task.begin);
      args.argmax_stride = static_cast<std::int64_t>(task.inputs[1].sample_bytes);
      args.diff_src = task.outputs[0].at(task.begin);
      args.diff_src_stride = float_stride(task.outputs[0]);
      args.sample_end = task.end - task.begin;
      args.block_end = blocks;
      kernels::table().pool.max_backward(args);
    });
  }

 private:
  PoolShape shape_;
  ValueType input_;
};

class AveragePoolBackwardOp final : public Op {
 public:
  AveragePoolBackwardOp(const PoolShape& shape, ValueType input)
      : shape_(shape), input_(std::move(input)) {}
  std::string_view kind() const override { return "average_pool_backward"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {input_}; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    return pool_traits(input_);
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    const PoolShape shape = shape_;
    const int blocks = channel_blocks(input_);
    return make_kernel("own", [shape, blocks](const Task& task) {
      kernels::AveragePoolArgs args;
      args.shape = shape;
      set_operands(args, task.inputs[0], task.outputs[0], task);
      args.block_end = blocks;
      kernels::table().pool.average_backward(args);
    });
  }

 private:
  PoolShape shape_;
  ValueType input_;
};

class AveragePoolOp final : public Op {
 public:
  explicit AveragePoolOp(const PoolShape& shape) : shape_(shape) {}
  std::string_view kind() const override { return "average_pool"; }
  Layout preferred_layout(std::size_t, const ValueType&) const override { return Layout::kBlocked; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {ValueType::blocked({shape_.out_height, shape_.out_width, inputs[0].picture[2]})};
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    return pool_traits(inputs[0]);
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    const PoolShape shape = shape_;
    const int blocks = channel_blocks(inputs[0]);
    return make_kernel("own", [shape, blocks](const Task& task) {
      kernels::AveragePoolArgs args;
      args.shape = shape;
      set_operands(args, task.inputs[0], task.outputs[0], task);
      args.block_end = blocks;
      kernels::table().pool.average(args);
    });
  }
  void gradient(GradientBuilder& builder) const override {
    builder.set_input_gradient(0, builder.emit1(std::make_shared<AveragePoolBackwardOp>(
                                                    shape_, builder.type(builder.input(0))),
                                                {builder.output_gradient(0)}));
  }

 private:
  PoolShape shape_;
};

kernels::GlobalPoolArgs global_args(const ValueType& picture) {
  kernels::GlobalPoolArgs args;
  args.channels = picture.picture[2];
  args.pixels = picture.picture[0] * picture.picture[1];
  args.block_end = channel_blocks(picture);
  return args;
}

class GlobalAveragePoolBackwardOp final : public Op {
 public:
  explicit GlobalAveragePoolBackwardOp(ValueType input) : input_(std::move(input)) {}
  std::string_view kind() const override { return "global_average_pool_backward"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {input_}; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    return pool_traits(input_);
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    const kernels::GlobalPoolArgs args = global_args(input_);
    return make_kernel("own", [args](const Task& task) {
      kernels::GlobalPoolArgs own = args;
      set_operands(own, task.inputs[0], task.outputs[0], task);
      kernels::table().pool.global_average_backward(own);
    });
  }

 private:
  ValueType input_;
};

class GlobalAveragePoolOp final : public Op {
 public:
  std::string_view kind() const override { return "global_average_pool"; }
  Layout preferred_layout(std::size_t, const ValueType&) const override { return Layout::kBlocked; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    ValueType type;
    type.shape = Shape{inputs[0].picture[2]};
    return {type};
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    return pool_traits(inputs[0]);
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    const kernels::GlobalPoolArgs args = global_args(inputs[0]);
    return make_kernel("own", [args](const Task& task) {
      kernels::GlobalPoolArgs own = args;
      set_operands(own, task.inputs[0], task.outputs[0], task);
      kernels::table().pool.global_average(own);
    });
  }
  void gradient(GradientBuilder& builder) const override {
    builder.set_input_gradient(
        0,
        builder.emit1(std::make_shared<GlobalAveragePoolBackwardOp>(builder.type(builder.input(0))),
                      {builder.output_gradient(0)}));
  }
};

}  // namespace

ValueType argmax_type(const ValueType& pooled) {
  ValueType type = pooled;
  type.dtype = DType::kUInt8;
  return type;
}

std::vector<ValueType> MaxPoolOp::infer(std::span<const ValueType> inputs) const {
  const ValueType pooled =
      ValueType::blocked({shape_.out_height, shape_.out_width, inputs[0].picture[2]});
  if (!training_) return {pooled};
  return {pooled, argmax_type(pooled)};
}

OpTraits MaxPoolOp::traits(std::span<const ValueType> inputs, std::span<const ValueType>) const {
  return pool_traits(inputs[0]);
}

std::unique_ptr<Kernel> MaxPoolOp::bind(std::span<const ValueType> inputs,
                                        std::span<const ValueType>, int) const {
  const PoolShape shape = shape_;
  const int blocks = channel_blocks(inputs[0]);
  return make_kernel("own", [shape, blocks, training = training_, relu = relu_](const Task& task) {
    kernels::MaxPoolArgs args;
    args.shape = shape;
    args.relu = relu;
    set_operands(args, task.inputs[0], task.outputs[0], task);
    args.block_end = blocks;
    if (training) {
      args.argmax = task.outputs[1].at<std::uint8_t>(task.begin);
      args.argmax_stride = static_cast<std::int64_t>(task.outputs[1].sample_bytes);
    }
    kernels::table().pool.max(args);
  });
}

void MaxPoolOp::gradient(GradientBuilder& builder) const {
  builder.set_input_gradient(
      0, builder.emit1(std::make_shared<MaxPoolBackwardOp>(shape_, builder.type(builder.input(0))),
                       {builder.output_gradient(0), builder.output(1)}));
}

std::shared_ptr<const Op> make_average_pool_op(const PoolShape& shape) {
  return std::make_shared<AveragePoolOp>(shape);
}
std::shared_ptr<const Op> make_global_max_pool_op(const Shape& picture, bool training) {
  const ValueType input = ValueType::blocked(picture);
  const kernels::GlobalPoolArgs args = global_args(input);
  const auto with = [args](const Task& task, const Operand* winners) {
    kernels::GlobalPoolArgs own = args;
    set_operands(own, task.inputs[0], task.outputs[0], task);
    if (winners != nullptr) {
      own.argmax = winners->at<std::int32_t>(task.begin);
      own.argmax_stride = static_cast<std::int64_t>(winners->sample_bytes / sizeof(std::int32_t));
    }
    return own;
  };
  std::vector<ValueType> outputs = {vector_type(picture[2], DType::kFloat32, true)};
  if (training) outputs.push_back(vector_type(picture[2], DType::kInt32, true));
  const auto backward = [with](const Task& task) {
    kernels::table().pool.global_max_backward(with(task, &task.inputs[1]));
  };
  const auto gradient = [input, backward](GradientBuilder& builder) {
    builder.set_input_gradient(0, builder.emit1(make_sample_op({.kind = "global_max_pool_backward",
                                                                .outputs = {input},
                                                                .run = backward}),
                                                {builder.output_gradient(0), builder.output(1)}));
  };
  return make_sample_op({.kind = "global_max_pool",
                         .outputs = outputs,
                         .layout = Layout::kBlocked,
                         .flops_per_element = static_cast<double>(args.pixels),
                         .run =
                             [with, training](const Task& task) {
                               kernels::table().pool.global_max(
                                   with(task, training ? &task.outputs[1] : nullptr));
                             },
                         .gradient = gradient});
}

std::shared_ptr<const Op> make_global_average_pool_op() {
  return std::make_shared<GlobalAveragePoolOp>();
}

}  // namespace surefit
