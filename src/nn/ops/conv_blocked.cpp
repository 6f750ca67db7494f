// SPDX-License-Identifier: Apache-2.0
// Convolutions between blocked pictures. Four families share the nodes; each says how it cuts its
// work, what scratch it needs and how its weights must be prepared.
#include "nn/ops/conv_blocked.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "engine/kernels/table.hpp"
#include "engine/onednn.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/activation.hpp"
#include "nn/ops/batch_parts.hpp"
#include "nn/ops/conv_task.hpp"

namespace surefit {
namespace {

using kernels::ConvShape;
using kernels::WinogradDirection;
using OneDnnDirection = OneDnnConvolution::Direction;

// ---- Winograd with a slice of the transformed weights at a time

// As many slices as make one no larger than the kernel itself: 36 numbers for 9.
constexpr int kSlices = 4;

// Groups of output channels [begin, end).
struct Slice {
  int begin = 0, end = 0;
};
int groups_per_slice(const ConvShape& s, WinogradDirection direction) {
  return kernels::ceil_div(kernels::winograd_groups(s, direction), kSlices);
}
int slice_count(const ConvShape& s, WinogradDirection direction) {
  return kernels::ceil_div(kernels::winograd_groups(s, direction), groups_per_slice(s, direction));
}
Slice slice_of(const ConvShape& s, WinogradDirection direction, int index) {
  const int each = groups_per_slice(s, direction);
  return {index * each, std::min((index + 1) * each, kernels::winograd_groups(s, direction))};
}

// ---- forward and backward data, which differ little

// Traits that both directions share.
OpTraits pass_traits(const ConvShape& s, ConvAlgorithm algorithm, bool backward,
                     std::size_t scratchpad) {
  OpTraits traits;
  traits.flops_per_sample = conv_flops(s);
  switch (algorithm) {
    case ConvAlgorithm::kSliced:
    case ConvAlgorithm::kWinograd: {
      const auto direction =
          backward ? WinogradDirection::kBackwardData : WinogradDirection::kForward;
      traits.flops_per_sample /= 3;
      if (algorithm == ConvAlgorithm::kSliced) {
        traits.phases = 2 * slice_count(s, direction);
        traits.shared_scratch_bytes = sizeof(float) * kernels::winograd_group_floats(s, direction) *
                                      static_cast<std::size_t>(groups_per_slice(s, direction));
        // Each slice transforms the pictures again; weights are written and read back by every
        // group. resnet18, batch 32: 245 ms for what takes 176 otherwise.
        traits.flops_per_sample *= 1.3;
        traits.flops_per_step = static_cast<double>(winograd_count(s, direction)) * 20;
      }
      traits.blocks = kernels::winograd_blocks(s, direction);
      traits.samples_per_task = kernels::winograd_sample_group(s, direction);
      traits.thread_scratch_bytes = kernels::winograd_pass_scratch_bytes(s, direction);
      break;
    }
    case ConvAlgorithm::kDepthwise:
      traits.blocks = kernels::depthwise_blocks(s);
      traits.thread_scratch_bytes = kernels::depthwise_scratch_bytes(s);
      traits.efficiency = 0.2;
      break;
    case ConvAlgorithm::kOneDnn:
      traits.thread_scratch_bytes = scratchpad;
      break;
    default:
      traits.blocks =
          backward ? kernels::direct_backward_data_blocks(s) : kernels::direct_forward_blocks(s);
      traits.samples_per_task = kernels::direct_sample_group(s, backward);
      if (kernels::direct_by_samples(s, backward))
        traits.samples_worth_splitting = kernels::kDirectSamplesWorthSplitting;
      traits.thread_scratch_bytes = kernels::direct_scratch_bytes(s);
  }
  return traits;
}

// Inputs: picture or gradient, transformed weights, the bias where there is one, the kernel.
std::unique_ptr<Kernel> bind_winograd_pass(const ConvShape& s, WinogradDirection direction,
                                           bool bias, bool relu, bool sliced) {
  const auto pass = [s, direction, bias, relu](const Task& task, const float* u, Slice slice) {
    kernels::WinogradPass args;
    args.shape = s;
    args.direction = direction;
    args.src = task.inputs[0].at(task.begin);
    args.src_stride = float_stride(task.inputs[0]);
    args.u = u;
    args.group_begin = slice.begin;
    args.group_end = slice.end;
    args.bias = bias ? task.inputs[2].at() : nullptr;
    args.dst = task.outputs[0].at(task.begin);
    args.dst_stride = float_stride(task.outputs[0]);
    args.relu = relu;
    kernels::table().winograd.pass(args, samples(task), task.block, scratch_of(task));
  };
  if (!sliced) {
    const Slice all{0, kernels::winograd_groups(s, direction)};
    return make_kernel("own winograd",
                       [pass, all](const Task& task) { pass(task, task.inputs[1].at(), all); });
  }
  // Every other phase transforms a slice; all tasks share that work.
  return make_kernel("own winograd, sliced", [s, direction, pass](const Task& task) {
    const Slice slice = slice_of(s, direction, task.phase / 2);
    auto* u = reinterpret_cast<float*>(task.shared_scratch);
    if (task.phase % 2 == 1) return pass(task, u, slice);
    const kernels::WinogradWeights args{s, direction, task.inputs.back().at(), u, slice.begin};
    for (int group = slice.begin + task.index; group < slice.end; group += task.count)
      kernels::table().winograd.transform_weights(args, group);
  });
}

bool is_winograd(ConvAlgorithm algorithm) {
  return algorithm == ConvAlgorithm::kWinograd || algorithm == ConvAlgorithm::kSliced;
}

// Inputs: gradient of the output, prepared weights; of Winograd's also the kernel.
class BackwardDataOp final : public Op, public WinogradReader {
 public:
  BackwardDataOp(const ConvShape& shape, ConvAlgorithm algorithm, ValueType input)
      : shape_(shape), algorithm_(algorithm), input_(std::move(input)) {
    if (algorithm == ConvAlgorithm::kOneDnn)
      scratchpad_ = OneDnnConvolution::scratchpad_bytes(options(1));
  }
  std::string_view kind() const override { return "conv2d_backward_data"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {input_}; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    return pass_traits(shape_, algorithm_, true, scratchpad_);
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int threads) const override {
    if (is_winograd(algorithm_)) {
      return bind_winograd_pass(shape_, WinogradDirection::kBackwardData, false, false,
                                algorithm_ == ConvAlgorithm::kSliced);
    }
    if (algorithm_ == ConvAlgorithm::kOneDnn) {
      const auto conv = std::make_shared<OneDnnConvolution>(options(threads));
      return make_kernel(conv->implementation(), [conv](const Task& task) {
        for (std::int64_t n = task.begin; n < task.end; ++n) {
          conv->execute(task.thread, task.outputs[0].at(n), task.inputs[1].at(), nullptr,
                        task.inputs[0].at(n), task.thread_scratch);
        }
      });
    }
    const bool depthwise = algorithm_ == ConvAlgorithm::kDepthwise;
    return make_kernel(depthwise ? "own depthwise" : "own direct",
                       [s = shape_, depthwise](const Task& task) {
                         const auto args = backward_data_args(s, task);
                         const auto run = depthwise ? kernels::table().depthwise.backward_data
                                                    : kernels::table().direct.backward_data;
                         run(args, samples(task), task.block, scratch_of(task));
                       });
  }
  std::shared_ptr<const Op> frugal() const override {
    if (algorithm_ != ConvAlgorithm::kWinograd) return nullptr;
    return std::make_shared<BackwardDataOp>(shape_, ConvAlgorithm::kSliced, input_);
  }
  Pass winograd_pass() const override {
    return {kind(), shape_, WinogradDirection::kBackwardData, false, false, input_};
  }

 private:
  OneDnnConvolution::Options options(int threads) const {
    return {OneDnnDirection::kBackwardData, shape_, false, false, threads};
  }
  ConvShape shape_;
  ConvAlgorithm algorithm_;
  ValueType input_;
  std::size_t scratchpad_ = 0;
};

class BlockedConvOp final : public ConvOp, public WinogradReader {
 public:
  BlockedConvOp(const ConvShape& shape, ConvAlgorithm algorithm, bool bias, bool relu)
      : shape_(shape), algorithm_(algorithm), bias_(bias), relu_(relu) {
    if (algorithm == ConvAlgorithm::kOneDnn)
      scratchpad_ = OneDnnConvolution::scratchpad_bytes(options(1));
  }
  std::string_view kind() const override { return relu_ ? "conv2d_relu" : "conv2d"; }
  Layout preferred_layout(std::size_t index, const ValueType& type) const override {
    return index == 0 ? Layout::kBlocked : type.layout;
  }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    return {ValueType::blocked({shape_.oh, shape_.ow, shape_.oc})};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    return pass_traits(shape_, algorithm_, false, scratchpad_);
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int threads) const override {
    if (is_winograd(algorithm_)) {
      return bind_winograd_pass(shape_, WinogradDirection::kForward, bias_, relu_,
                                algorithm_ == ConvAlgorithm::kSliced);
    }
    if (algorithm_ == ConvAlgorithm::kOneDnn) {
      const auto conv = std::make_shared<OneDnnConvolution>(options(threads));
      return make_kernel(conv->implementation(), [conv, bias = bias_](const Task& task) {
        for (std::int64_t n = task.begin; n < task.end; ++n) {
          conv->execute(task.thread, task.inputs[0].at(n), task.inputs[1].at(),
                        bias ? task.inputs[2].at() : nullptr, task.outputs[0].at(n),
                        task.thread_scratch);
        }
      });
    }
    const bool depthwise = algorithm_ == ConvAlgorithm::kDepthwise;
    return make_kernel(depthwise ? "own depthwise" : "own direct",
                       [s = shape_, bias = bias_, relu = relu_, depthwise](const Task& task) {
                         auto args = forward_args<kernels::ConvForward>(s, task);
                         args.relu = relu;
                         args.bias = bias ? task.inputs[2].at() : nullptr;
                         const auto run = depthwise ? kernels::table().depthwise.forward
                                                    : kernels::table().direct.forward;
                         run(args, samples(task), task.block, scratch_of(task));
                       });
  }

  std::shared_ptr<const Op> absorb(const Op& consumer, std::size_t,
                                   std::span<const ValueType>) const override {
    return !relu_ && is_relu(consumer)
               ? std::make_shared<BlockedConvOp>(shape_, algorithm_, bias_, true)
               : nullptr;
  }

  std::shared_ptr<const Op> frugal() const override {
    if (algorithm_ != ConvAlgorithm::kWinograd) return nullptr;
    return std::make_shared<BlockedConvOp>(shape_, ConvAlgorithm::kSliced, bias_, relu_);
  }
  Pass winograd_pass() const override {
    return {kind(), shape_, WinogradDirection::kForward, bias_, relu_, infer({})[0]};
  }

  // Winograd's tiles are made for paddings of its own.
  std::shared_ptr<const Op> with_padding(const Sides& pad, bool) const override {
    const ConvShape shape = padded_shape(shape_, pad);
    if (algorithm_ == ConvAlgorithm::kWinograd) return nullptr;
    if (algorithm_ == ConvAlgorithm::kOneDnn && !onednn_serves(shape)) return nullptr;
    return std::make_shared<BlockedConvOp>(shape, algorithm_, bias_, relu_);
  }

  void gradient(GradientBuilder& builder) const override {
    ValueId diff_dst = builder.output_gradient(0);
    if (relu_) {
      diff_dst = builder.emit1(make_activation_backward({kernels::Activation::kRelu}),
                               {builder.output(0), diff_dst});
    }
    if (bias_ && builder.wants(2)) {
      builder.set_input_gradient(
          2, emit_in_parts(builder,
                           make_bias_gradient_op(shape_.oc, std::int64_t{shape_.oh} * shape_.ow),
                           {diff_dst}));
    }
    // Weights first: the saved input can go before its gradient comes, and Winograd's gradient
    // shrinks to the kernel's size before the transformed weights come.
    const std::size_t kernel = kernel_input(builder);
    if (builder.wants(kernel)) {
      auto reduction = make_conv_backward_weights_op(shape_, algorithm_);
      const std::vector<ValueId> operands = {builder.input(0), diff_dst};
      ValueId gradient = algorithm_ == ConvAlgorithm::kDirect
                             ? emit_in_parts(builder, std::move(reduction), operands)
                             : builder.emit1(std::move(reduction), operands, Category::kGradients);
      if (algorithm_ == ConvAlgorithm::kWinograd) {
        gradient =
            builder.emit1(make_winograd_gradient_op(shape_), {gradient}, Category::kGradients);
      }
      builder.set_input_gradient(kernel, gradient);
    }
    if (builder.wants(0)) {
      builder.set_input_gradient(
          0, builder.emit1(std::make_shared<BackwardDataOp>(shape_, algorithm_,
                                                            builder.type(builder.input(0))),
                           backward_data_inputs(builder, diff_dst)));
    }
  }

 private:
  OneDnnConvolution::Options options(int threads) const {
    return {OneDnnDirection::kForward, shape_, bias_, relu_, threads};
  }
  std::size_t kernel_input(const GradientBuilder& builder) const {
    return algorithm_ == ConvAlgorithm::kWinograd ? builder.input_count() - 1 : 1;
  }
  // With the weights in the form that the backward pass of the family reads.
  std::vector<ValueId> backward_data_inputs(GradientBuilder& builder, ValueId diff_dst) const {
    const ValueId kernel = builder.input(kernel_input(builder));
    const auto form = make_backward_weights_form_op(shape_, algorithm_);
    std::vector<ValueId> inputs = {
        diff_dst, form == nullptr ? kernel : builder.emit1(form, {kernel}, Category::kScratch)};
    if (algorithm_ == ConvAlgorithm::kWinograd) inputs.push_back(kernel);
    return inputs;
  }
  ConvShape shape_;
  ConvAlgorithm algorithm_;
  bool bias_, relu_;
  std::size_t scratchpad_ = 0;
};

}  // namespace

std::shared_ptr<const Op> make_conv_backward_data_op(const ConvShape& shape,
                                                     ConvAlgorithm algorithm,
                                                     const ValueType& picture) {
  return std::make_shared<BackwardDataOp>(shape, algorithm, picture);
}

std::shared_ptr<const Op> make_blocked_conv_op(const ConvShape& shape, ConvAlgorithm algorithm,
                                               bool bias) {
  return std::make_shared<BlockedConvOp>(shape, algorithm, bias, false);
}

}  // namespace surefit
