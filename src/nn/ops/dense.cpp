// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/dense.hpp"

#include <tuple>

#include "engine/kernels/table.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/activation.hpp"
#include "nn/ops/dense_backward.hpp"
#include "nn/ops/dense_cut.hpp"
#include "nn/ops/kernel.hpp"

namespace surefit {
namespace {

using kernels::DenseShape;

DenseShape shape_of(const ValueType& input, std::int64_t units) {
  return {static_cast<std::int64_t>(input.stored_count()), units};
}

// The sums of one part, without bias.
void run_part(kernels::DenseForwardArgs own, const DenseCut& cut, const Task& task) {
  const std::int64_t index = cut.part_of(task.block);
  const DensePart here = dense_part(own.shape, cut, index);
  own.shape = here.shape;
  own.src += here.k_begin;
  own.weights += here.weights_begin;
  own.bias = nullptr;
  own.relu = false;
  own.dst = task.outputs[1].at(task.begin) + index * own.shape.outputs;
  own.dst_stride = float_stride(task.outputs[1]);
  kernels::table().dense.forward(own);
}

// Every block takes some of the samples.
void add_parts(const kernels::DenseForwardArgs& own, const DenseCut& cut, const Task& task) {
  kernels::DenseAddPartsArgs args;
  args.outputs = own.shape.outputs;
  args.parts = cut.k_parts;
  args.sums = task.outputs[1].at(task.begin);
  args.sums_stride = float_stride(task.outputs[1]);
  args.bias = own.bias;
  args.dst = own.dst;
  args.dst_stride = own.dst_stride;
  args.sample_begin = own.sample_end * task.block / cut.blocks();
  args.sample_end = own.sample_end * (task.block + 1) / cut.blocks();
  args.relu = own.relu;
  kernels::table().dense.add_parts(args);
}

// Outputs: y and, where forward has parts, the sum of each of them.
class DenseOp final : public Op {
 public:
  DenseOp(std::int64_t units, bool bias, bool relu) : units_(units), bias_(bias), relu_(relu) {}
  std::string_view kind() const override { return relu_ ? "dense_relu" : "dense"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    std::vector<ValueType> types = {vector_type(units_, DType::kFloat32, true)};
    const std::int64_t parts = cut_dense(shape_of(inputs[0], units_)).k_parts;
    if (parts > 1) types.push_back(vector_type(parts * units_, DType::kFloat32, true));
    return types;
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    const DenseShape shape = shape_of(inputs[0], units_);
    const DenseCut cut = cut_dense(shape);
    traits.blocks = static_cast<int>(cut.blocks());
    traits.phases = cut.k_parts > 1 ? 2 : 1;
    traits.samples_per_task = 64;
    traits.flops_per_sample = 2.0 * static_cast<double>(shape.inputs * shape.outputs);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    kernels::DenseForwardArgs args;
    args.shape = shape_of(inputs[0], units_);
    args.relu = relu_;
    return make_kernel("own", [args, cut = cut_dense(args.shape), bias = bias_](const Task& task) {
      kernels::DenseForwardArgs own = args;
      own.src = task.inputs[0].at(task.begin);
      own.src_stride = float_stride(task.inputs[0]);
      own.weights = task.inputs[1].at();
      own.bias = bias ? task.inputs[2].at() : nullptr;
      own.dst = task.outputs[0].at(task.begin);
      own.dst_stride = float_stride(task.outputs[0]);
      own.sample_end = task.end - task.begin;
      if (task.phase == 1) return add_parts(own, cut, task);
      std::tie(own.unit_begin, own.unit_end) =
          piece_of(kernels::dense_units(own.shape), cut.unit_step, cut.unit_part_of(task.block));
      if (cut.k_parts > 1) return run_part(own, cut, task);
      kernels::table().dense.forward(own);
    });
  }
  std::shared_ptr<const Op> absorb(const Op& consumer, std::size_t,
                                   std::span<const ValueType>) const override {
    return !relu_ && is_relu(consumer) ? std::make_shared<DenseOp>(units_, bias_, true) : nullptr;
  }
  void gradient(GradientBuilder& builder) const override {
    ValueId diff_dst = builder.output_gradient(0);
    if (relu_) {
      diff_dst = builder.emit1(make_activation_backward({kernels::Activation::kRelu}),
                               {builder.output(0), diff_dst});
    }
    const ValueType input = builder.type(builder.input(0));
    const DenseShape shape = shape_of(input, units_);
    const bool weights = builder.wants(1) || (bias_ && builder.wants(2));
    if (weights && builder.wants(0) && in_parts(shape)) {
      const auto gradients =
          builder.emit(make_dense_backward_op(shape, bias_, input),
                       {builder.input(0), diff_dst, builder.input(1)}, Category::kGradients);
      builder.set_input_gradient(1, gradients[0]);
      builder.set_input_gradient(0, gradients[1]);
      if (bias_) builder.set_input_gradient(2, gradients[2]);
      return;
    }
    if (weights) {
      const auto gradients = builder.emit(make_dense_backward_weights_op(shape, bias_),
                                          {builder.input(0), diff_dst}, Category::kGradients);
      builder.set_input_gradient(1, gradients[0]);
      if (bias_) builder.set_input_gradient(2, gradients[1]);
    }
    if (builder.wants(0)) {
      builder.set_input_gradient(0, builder.emit1(make_dense_backward_data_op(shape, input),
                                                  {diff_dst, builder.input(1)}));
    }
  }

 private:
  std::int64_t units_;
  bool bias_, relu_;
};

class DenseKernelPacking final : public Packing {
 public:
  DenseKernelPacking(ValueType input, std::int64_t units)
      : input_(std::move(input)), shape_(shape_of(input_, units)) {}
  std::size_t stored_count() const override {
    return static_cast<std::size_t>(kernels::dense_weight_count(shape_));
  }
  std::size_t lines() const override {
    const bool plain = input_.layout == Layout::kPlain;
    return static_cast<std::size_t>(plain ? shape_.inputs : pixels() * input_.picture[2]);
  }
  std::size_t line_length() const override { return static_cast<std::size_t>(shape_.outputs); }
  void write_line(std::size_t line, const float* keras, float* engine) const override {
    const std::int64_t row = stored_row(line);
    const DensePart part = part_of(row);
    kernels::table().dense.pack_row(part.shape, row - part.k_begin, keras,
                                    engine + part.weights_begin);
  }
  void read_line(std::size_t line, const float* engine, float* keras) const override {
    const std::int64_t row = stored_row(line);
    const DensePart part = part_of(row);
    kernels::table().dense.unpack_row(part.shape, row - part.k_begin, engine + part.weights_begin,
                                      keras);
  }

 private:
  std::int64_t pixels() const { return input_.picture[0] * input_.picture[1]; }
  DensePart part_of(std::int64_t row) const { return dense_part(shape_, cut_, row / cut_.k_step); }
  // Keras's rows follow the picture's pixels, ours its blocks of channels.
  std::int64_t stored_row(std::size_t line) const {
    const auto row = static_cast<std::int64_t>(line);
    if (input_.layout == Layout::kPlain) return row;
    const std::int64_t channels = input_.picture[2], pixel = row / channels, c = row % channels;
    return (c / kChannelBlock * pixels() + pixel) * kChannelBlock + c % kChannelBlock;
  }
  ValueType input_;
  DenseShape shape_;
  DenseCut cut_ = cut_dense(shape_);
};

}  // namespace

std::shared_ptr<const Op> make_dense_op(std::int64_t units, bool bias) {
  return std::make_shared<DenseOp>(units, bias, false);
}

std::shared_ptr<const Packing> dense_kernel_packing(const ValueType& input, std::int64_t units) {
  return std::make_shared<DenseKernelPacking>(input, units);
}

}  // namespace surefit
