// SPDX-License-Identifier: Apache-2.0
// Convolution of the input picture, plain channels last, and the block around it.
#include <algorithm>

#include "base/check.hpp"
#include "engine/kernels/table.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/activation.hpp"
#include "nn/ops/conv.hpp"
#include "nn/ops/conv_task.hpp"
#include "nn/ops/pool.hpp"

namespace surefit {
namespace {

using kernels::ConvShape;

// Inputs: picture, gradient of the output. Outputs: the gradients of kernel and bias.
class FirstBackwardWeightsOp final : public Op {
 public:
  FirstBackwardWeightsOp(const ConvShape& shape, bool bias) : shape_(shape), bias_(bias) {}
  std::string_view kind() const override { return "conv2d_backward_weights"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    std::vector<ValueType> types = {float_vector(kernels::first_weights_floats(shape_))};
    if (bias_) types.push_back(float_vector(bias_count(shape_)));
    return types;
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.blocks = kernels::first_backward_weights_blocks(shape_);
    traits.thread_scratch_bytes = kernels::first_scratch_bytes(shape_);
    traits.flops_per_sample = conv_flops(shape_);
    traits.samples_per_pass = samples_in_cache(shape_);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own first", [s = shape_, bias = bias_](const Task& task) {
      auto args = backward_weights_args<kernels::ConvBackwardWeights>(s, task);
      args.diff_weights = task.outputs[0].at();
      args.diff_bias = bias ? task.outputs[1].at() : nullptr;
      kernels::table().first.backward_weights(args, samples(task), task.block, scratch_of(task));
    });
  }

 private:
  ConvShape shape_;
  bool bias_;
};

// Inputs: picture, gradient of the pooled output, which element of each window won. Output: the
// gradients of kernel and bias of each sample, one behind the other.
class FirstPoolBackwardWeightsOp final : public Op {
 public:
  explicit FirstPoolBackwardWeightsOp(const ConvShape& shape) : shape_(shape) {}
  std::string_view kind() const override { return "conv2d_pool_backward_weights"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    const auto count = static_cast<std::int64_t>(kernels::first_pool_gradient_floats(shape_));
    return {vector_type(count, DType::kFloat32, true)};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.thread_scratch_bytes = kernels::first_pool_scratch_bytes(shape_);
    traits.flops_per_sample = conv_flops(shape_);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own first pool", [s = shape_](const Task& task) {
      auto args = backward_weights_args<kernels::FirstPoolBackwardWeights>(s, task);
      args.argmax = task.inputs[2].at<std::uint8_t>(task.begin);
      args.gradient = task.outputs[0].at(task.begin);
      args.gradient_stride = float_stride(task.outputs[0]);
      kernels::table().first_pool.backward_weights(args, samples(task), scratch_of(task));
    });
  }

 private:
  ConvShape shape_;
};

// Adds the gradients of all samples, in their order.
class FirstPoolSumOp final : public Op {
 public:
  FirstPoolSumOp(const ConvShape& shape, bool bias) : shape_(shape), bias_(bias) {}
  std::string_view kind() const override { return "conv2d_pool_sum"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    std::vector<ValueType> types = {float_vector(kernels::first_weights_floats(shape_))};
    if (bias_) types.push_back(float_vector(bias_count(shape_)));
    return types;
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.flops_per_sample = static_cast<double>(inputs[0].stored_count());
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType> outputs,
                               int) const override {
    std::vector<std::size_t> counts;
    for (const ValueType& output : outputs) counts.push_back(output.stored_count());
    return make_kernel("own", [counts](const Task& task) {
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        const float* part = task.inputs[0].at(n);
        for (std::size_t i = 0; i < counts.size(); ++i, part += counts[i - 1]) {
          if (n == 0) {
            std::copy_n(part, counts[i], task.outputs[i].at());
          } else {
            kernels::table().elementwise.accumulate(part, task.outputs[i].at(),
                                                    static_cast<std::int64_t>(counts[i]));
          }
        }
      }
    });
  }

 private:
  ConvShape shape_;
  bool bias_;
};

class FirstBackwardDataOp final : public Op {
 public:
  FirstBackwardDataOp(const ConvShape& shape, ValueType input)
      : shape_(shape), input_(std::move(input)) {}
  std::string_view kind() const override { return "conv2d_backward_data"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {input_}; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.blocks = kernels::first_backward_data_blocks(shape_);
    traits.thread_scratch_bytes = kernels::first_scratch_bytes(shape_);
    traits.flops_per_sample = conv_flops(shape_);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own first", [s = shape_](const Task& task) {
      const auto args = backward_data_args(s, task);
      kernels::table().first.backward_data(args, samples(task), task.block, scratch_of(task));
    });
  }

 private:
  ConvShape shape_;
  ValueType input_;
};

// Inputs: picture, kernel, [bias]. Outputs: the pooled picture and which element of each window
// won.
class FirstPoolOp final : public Op {
 public:
  FirstPoolOp(const ConvShape& shape, bool bias)
      : shape_(shape), bias_(bias), no_bias_(bias_count(shape), 0.0f) {}
  std::string_view kind() const override { return "conv2d_relu_max_pool"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    const ValueType pooled = ValueType::blocked({shape_.oh / 2, shape_.ow / 2, shape_.oc});
    return {pooled, argmax_type(pooled)};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.blocks = kernels::first_pool_forward_blocks(shape_);
    traits.thread_scratch_bytes = kernels::first_pool_scratch_bytes(shape_);
    traits.flops_per_sample = conv_flops(shape_);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    const ConvShape s = shape_;
    const bool bias = bias_;
    return make_kernel("own first pool", [s, bias, zeros = no_bias_](const Task& task) {
      auto own = forward_args<kernels::FirstPoolForward>(s, task);
      own.bias = bias ? task.inputs[2].at() : zeros.data();
      own.argmax = task.outputs[1].at<std::uint8_t>(task.begin);
      kernels::table().first_pool.forward(own, samples(task), task.block, scratch_of(task));
    });
  }
  void gradient(GradientBuilder& builder) const override {
    SUREFIT_CHECK(!builder.wants(0), "a fused first block cannot give the gradient of its picture");
    const ValueId parts = builder.emit1(
        std::make_shared<FirstPoolBackwardWeightsOp>(shape_),
        {builder.input(0), builder.output_gradient(0), builder.output(1)}, Category::kGradients);
    const auto gradients = builder.emit(std::make_shared<FirstPoolSumOp>(shape_, bias_), {parts},
                                        Category::kGradients);
    builder.set_input_gradient(1, gradients[0]);
    if (bias_) builder.set_input_gradient(2, gradients[1]);
  }

 private:
  ConvShape shape_;
  bool bias_;
  std::vector<float> no_bias_;
};

class FirstConvOp final : public ConvOp {
 public:
  FirstConvOp(const ConvShape& shape, bool bias, bool relu, bool outer_picture)
      : shape_(shape),
        bias_(bias),
        relu_(relu),
        outer_picture_(outer_picture),
        no_bias_(bias_count(shape), 0.0f) {}
  std::string_view kind() const override { return relu_ ? "conv2d_relu" : "conv2d"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    return {ValueType::blocked({shape_.oh, shape_.ow, shape_.oc})};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.blocks = kernels::first_forward_blocks(shape_);
    traits.thread_scratch_bytes = kernels::first_scratch_bytes(shape_);
    traits.flops_per_sample = conv_flops(shape_);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel(
        "own first", [s = shape_, bias = bias_, relu = relu_, zeros = no_bias_](const Task& task) {
          auto args = forward_args<kernels::ConvForward>(s, task);
          args.relu = relu;
          args.bias = bias ? task.inputs[2].at() : zeros.data();
          kernels::table().first.forward(args, samples(task), task.block, scratch_of(task));
        });
  }

  std::shared_ptr<const Op> absorb(const Op& consumer, std::size_t,
                                   std::span<const ValueType>) const override {
    if (!relu_ && is_relu(consumer))
      return std::make_shared<FirstConvOp>(shape_, bias_, true, outer_picture_);
    const auto* pool = dynamic_cast<const MaxPoolOp*>(&consumer);
    if (relu_ || pool == nullptr || !pool->relu() || !pool->training() || !outer_picture_)
      return nullptr;
    const kernels::PoolShape& p = pool->shape();
    const bool halving = p.window_h == 2 && p.window_w == 2 && p.stride_h == 2 && p.stride_w == 2 &&
                         p.pad_top == 0 && p.pad_left == 0 && p.out_height == p.height / 2 &&
                         p.out_width == p.width / 2;
    const bool plain = shape_.stride_h == 1 && shape_.stride_w == 1 && shape_.dilation_h == 1 &&
                       shape_.dilation_w == 1;
    if (!halving || !plain) return nullptr;
    return std::make_shared<FirstPoolOp>(shape_, bias_);
  }

  std::shared_ptr<const Op> with_padding(const Sides& pad, bool outer_picture) const override {
    return std::make_shared<FirstConvOp>(padded_shape(shape_, pad), bias_, relu_, outer_picture);
  }

  void gradient(GradientBuilder& builder) const override {
    ValueId diff_dst = builder.output_gradient(0);
    if (relu_) {
      diff_dst = builder.emit1(make_activation_backward({kernels::Activation::kRelu}),
                               {builder.output(0), diff_dst});
    }
    // Weights first: the saved input can go before its gradient comes.
    if (builder.wants(1) || (bias_ && builder.wants(2))) {
      const auto gradients = builder.emit(std::make_shared<FirstBackwardWeightsOp>(shape_, bias_),
                                          {builder.input(0), diff_dst}, Category::kGradients);
      builder.set_input_gradient(1, gradients[0]);
      if (bias_) builder.set_input_gradient(2, gradients[1]);
    }
    if (builder.wants(0)) {
      builder.set_input_gradient(0, builder.emit1(std::make_shared<FirstBackwardDataOp>(
                                                      shape_, builder.type(builder.input(0))),
                                                  {diff_dst, builder.input(1)}));
    }
  }

 private:
  ConvShape shape_;
  bool bias_, relu_, outer_picture_;
  std::vector<float> no_bias_;
};

}  // namespace

std::shared_ptr<const Op> make_first_conv_op(const ConvShape& shape, bool bias,
                                             bool outer_picture) {
  return std::make_shared<FirstConvOp>(shape, bias, false, outer_picture);
}

}  // namespace surefit
