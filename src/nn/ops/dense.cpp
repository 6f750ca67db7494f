// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/dense.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/check.hpp"
#include "engine/kernels/table.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/activation.hpp"
#include "nn/ops/dense_cut.hpp"
#include "nn/ops/kernel.hpp"

namespace surefit {
namespace {

using kernels::DenseShape;

constexpr std::int64_t kStripRows = 512;  // of a kernel with many outputs

DenseShape shape_of(const ValueType& input, std::int64_t units) {
  return {static_cast<std::int64_t>(input.stored_count()), units};
}

// Part `index` of [0, count) in steps of `step`.
std::pair<std::int64_t, std::int64_t> part(std::int64_t count, std::int64_t step,
                                           std::int64_t index) {
  return {std::min(count, index * step), std::min(count, (index + 1) * step)};
}

void backward_bias(const DenseShape& shape, const Task& task, const Operand& diff_bias) {
  kernels::DenseBackwardBiasArgs args;
  args.shape = shape;
  args.diff_dst = task.inputs[1].at(task.begin);
  args.diff_dst_stride = float_stride(task.inputs[1]);
  args.diff_bias = diff_bias.at();
  args.sample_end = task.end - task.begin;
  args.first = task.begin == 0;
  kernels::table().dense.backward_bias(args);
}

// What a task needs besides its range of weights.
kernels::DenseBackwardWeightsArgs weights_args(const DenseShape& shape, const Task& task) {
  kernels::DenseBackwardWeightsArgs args;
  args.shape = shape;
  args.src = task.inputs[0].at(task.begin);
  args.src_stride = float_stride(task.inputs[0]);
  args.diff_dst = task.inputs[1].at(task.begin);
  args.diff_dst_stride = float_stride(task.inputs[1]);
  args.sample_end = task.end - task.begin;
  args.first = task.begin == 0;
  return args;
}

// The gradient of a large kernel, used up piece by piece: a piece is computed over all samples,
// applied, and forgotten. Inputs: x, dy, kernel, slots; output: the gradient of the bias.
class DenseUpdateOp final : public Op {
 public:
  DenseUpdateOp(const DenseShape& shape, bool bias, std::shared_ptr<const ElementUpdate> update,
                std::size_t slots)
      : shape_(shape), bias_(bias), update_(std::move(update)) {
    SUREFIT_CHECK(cut_dense(shape).k_parts == 1, "{} weights in parts",
                  kernels::dense_weight_count(shape));
    for (std::size_t i = 0; i <= slots; ++i) positions_.push_back(static_cast<int>(i) + 2);
  }
  std::string_view kind() const override { return "dense_update"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    std::vector<ValueType> types;
    if (bias_) types.push_back(vector_type(shape_.outputs));
    return types;
  }
  std::vector<int> mutated_inputs() const override { return positions_; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.blocks = static_cast<int>(cut_dense(shape_).unit_parts) + (bias_ ? 1 : 0);
    traits.flops_per_sample = 2.0 * static_cast<double>(shape_.inputs * shape_.outputs);
    traits.thread_scratch_bytes =
        static_cast<std::size_t>(kStripRows * kernels::kDensePanel) * sizeof(float);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel(
        "own", [shape = shape_, cut = cut_dense(shape_), update = update_](const Task& task) {
          // Part of a batch would be applied as if it were the whole.
          SUREFIT_CHECK(task.begin == 0 && task.end == task.step->samples, "samples {} to {} of {}",
                        task.begin, task.end, task.step->samples);
          if (task.block == cut.unit_parts) return backward_bias(shape, task, task.outputs[0]);
          auto* gradient = reinterpret_cast<float*>(task.thread_scratch);
          kernels::DenseBackwardWeightsArgs args = weights_args(shape, task);
          args.read_soon = true;
          const auto [first, last] = part(kernels::dense_units(shape), cut.unit_step, task.block);
          for (args.unit_begin = first; args.unit_begin < last; ++args.unit_begin) {
            args.unit_end = args.unit_begin + 1;
            for (args.k_begin = 0; args.k_begin < shape.inputs; args.k_begin = args.k_end) {
              args.k_end = std::min(shape.inputs, args.k_begin + kStripRows);
              const std::int64_t begin =
                  (args.unit_begin * shape.inputs + args.k_begin) * kernels::kDensePanel;
              args.diff_weights = gradient - begin;  // the kernel addresses the whole array
              kernels::table().dense.backward_weights(args);
              update->run(*task.step, task.inputs.subspan(2), begin,
                          (args.k_end - args.k_begin) * kernels::kDensePanel, gradient);
            }
          }
        });
  }

 private:
  DenseShape shape_;
  bool bias_;
  std::shared_ptr<const ElementUpdate> update_;
  std::vector<int> positions_;
};

// Where the gradient of the kernel is much larger than a batch of its input.
bool is_large(const DenseShape& shape) {
  return kernels::dense_units(shape) > 1 && shape.outputs >= 256 &&
         kernels::dense_weight_count(shape) >= 1 << 20;
}

class DenseBackwardWeightsOp final : public Op {
 public:
  DenseBackwardWeightsOp(const DenseShape& shape, bool bias) : shape_(shape), bias_(bias) {}
  std::string_view kind() const override { return "dense_backward_weights"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    std::vector<ValueType> types = {vector_type(kernels::dense_weight_count(shape_))};
    if (bias_) types.push_back(vector_type(shape_.outputs));
    return types;
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    const DenseCut cut = cut_dense(shape_);
    traits.blocks = static_cast<int>(cut.blocks()) + (bias_ ? 1 : 0);
    traits.flops_per_sample = 2.0 * static_cast<double>(shape_.inputs * shape_.outputs);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    const DenseShape shape = shape_;
    const DenseCut cut = cut_dense(shape);
    return make_kernel("own", [shape, cut](const Task& task) {
      if (task.block == cut.blocks()) return backward_bias(shape, task, task.outputs[1]);
      const DensePart own = dense_part(shape, cut, cut.part_of(task.block));
      kernels::DenseBackwardWeightsArgs args = weights_args(own.shape, task);
      args.src += own.k_begin;
      args.diff_weights = task.outputs[0].at() + own.weights_begin;
      args.k_end = own.shape.inputs;
      std::tie(args.unit_begin, args.unit_end) =
          part(kernels::dense_units(shape), cut.unit_step, cut.unit_part_of(task.block));
      kernels::table().dense.backward_weights(args);
    });
  }
  std::shared_ptr<const Op> absorb(const Op& consumer, std::size_t,
                                   std::span<const ValueType>) const override {
    auto update = is_large(shape_) ? consumer.element_update() : nullptr;
    if (update == nullptr) return nullptr;
    return std::make_shared<DenseUpdateOp>(shape_, bias_, std::move(update),
                                           consumer.mutated_inputs().size() - 1);
  }

 private:
  DenseShape shape_;
  bool bias_;
};

class DenseBackwardDataOp final : public Op {
 public:
  DenseBackwardDataOp(const DenseShape& shape, ValueType input)
      : shape_(shape), input_(std::move(input)) {}
  std::string_view kind() const override { return "dense_backward_data"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {input_}; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    const DenseCut cut = cut_dense(shape_);
    traits.blocks =
        static_cast<int>(cut.k_parts > 1 ? cut.k_parts : div_up(shape_.inputs, kStripRows));
    traits.samples_per_task = 64;
    traits.flops_per_sample = 2.0 * static_cast<double>(shape_.inputs * shape_.outputs);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own", [shape = shape_, cut = cut_dense(shape_)](const Task& task) {
      const bool parts = cut.k_parts > 1;
      const DensePart own = dense_part(shape, cut, parts ? task.block : 0);
      kernels::DenseBackwardDataArgs args;
      args.shape = own.shape;
      args.diff_dst = task.inputs[0].at(task.begin);
      args.diff_dst_stride = float_stride(task.inputs[0]);
      args.weights = task.inputs[1].at() + own.weights_begin;
      args.diff_src = task.outputs[0].at(task.begin) + own.k_begin;
      args.diff_src_stride = float_stride(task.outputs[0]);
      args.sample_end = task.end - task.begin;
      args.k_end = own.shape.inputs;
      if (!parts) std::tie(args.k_begin, args.k_end) = part(shape.inputs, kStripRows, task.block);
      kernels::table().dense.backward_data(args);
    });
  }

 private:
  DenseShape shape_;
  ValueType input_;
};

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
          part(kernels::dense_units(own.shape), cut.unit_step, cut.unit_part_of(task.block));
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
    if (builder.wants(1) || (bias_ && builder.wants(2))) {
      const auto gradients = builder.emit(std::make_shared<DenseBackwardWeightsOp>(shape, bias_),
                                          {builder.input(0), diff_dst}, Category::kGradients);
      builder.set_input_gradient(1, gradients[0]);
      if (bias_) builder.set_input_gradient(2, gradients[1]);
    }
    if (builder.wants(0)) {
      builder.set_input_gradient(0,
                                 builder.emit1(std::make_shared<DenseBackwardDataOp>(shape, input),
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
