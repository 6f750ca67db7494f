// SPDX-License-Identifier: Apache-2.0
// Convolutions between blocked pictures. Four families share the nodes; each says how it cuts its
// work, what scratch it needs and how its weights must be prepared.
#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "engine/kernels/table.hpp"
#include "engine/onednn.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/activation.hpp"
#include "nn/ops/conv.hpp"
#include "nn/ops/kernel.hpp"

namespace surefit {
namespace {

using kernels::ConvShape;
using kernels::WinogradDirection;
using OneDnnDirection = OneDnnConvolution::Direction;

std::size_t bias_count(const ConvShape& s) {
  return static_cast<std::size_t>(kernels::round_up(s.oc, 8));
}
kernels::Samples samples(const Task& task) {
  return {0, static_cast<int>(task.end - task.begin)};
}
float* scratch_of(const Task& task) {
  return reinterpret_cast<float*>(task.thread_scratch);
}

std::size_t winograd_count(const ConvShape& s, WinogradDirection direction) {
  return kernels::winograd_u_bytes(s, direction) / sizeof(float);
}

// ---- preparing weights: nodes that do not see the batch

// A node that turns the kernel (or its gradient) into another form, one block at a time.
class WeightsOp : public Op {
 public:
  WeightsOp(const ConvShape& shape, std::size_t output_count, int blocks)
      : shape_(shape), output_count_(output_count), blocks_(blocks) {}
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    return {conv_vector_type(output_count_)};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kBatchFree;
    traits.blocks = blocks_;
    traits.flops_per_step = static_cast<double>(output_count_) * 4;
    return traits;
  }

 protected:
  ConvShape shape_;

 private:
  std::size_t output_count_;
  int blocks_;
};

class WinogradGradientOp final : public WeightsOp {
 public:
  explicit WinogradGradientOp(const ConvShape& shape)
      : WeightsOp(shape, conv_weights_count(shape, ConvAlgorithm::kWinograd),
                  kernels::winograd_groups(shape, WinogradDirection::kForward)) {}
  std::string_view kind() const override { return "winograd_weights_gradient"; }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own winograd", [s = shape_](const Task& task) {
      const kernels::WinogradWeightsGradient args{s, task.inputs[0].at(), task.outputs[0].at()};
      kernels::table().winograd.weights_gradient(args, task.block);
    });
  }
};

class WinogradWeightsOp final : public WeightsOp {
 public:
  WinogradWeightsOp(const ConvShape& shape, WinogradDirection direction)
      : WeightsOp(shape, winograd_count(shape, direction),
                  kernels::winograd_groups(shape, direction)),
        direction_(direction) {}
  std::string_view kind() const override { return "winograd_weights"; }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own winograd", [s = shape_, direction = direction_](const Task& task) {
      const kernels::WinogradWeights args{s, direction, task.inputs[0].at(), task.outputs[0].at(),
                                          0};
      kernels::table().winograd.transform_weights(args, task.block);
    });
  }
  void gradient(GradientBuilder& builder) const override {
    builder.set_input_gradient(
        0, builder.emit1(std::make_shared<WinogradGradientOp>(shape_), {builder.output_gradient(0)},
                         Category::kGradients));
  }

 private:
  WinogradDirection direction_;
};

class ReverseWeightsOp final : public WeightsOp {
 public:
  explicit ReverseWeightsOp(const ConvShape& shape)
      : WeightsOp(shape, kernels::direct_reversed_floats(shape),
                  kernels::direct_reverse_blocks(shape)) {}
  std::string_view kind() const override { return "reverse_weights"; }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own direct", [s = shape_](const Task& task) {
      const kernels::DirectReverse args{s, task.inputs[0].at(), task.outputs[0].at()};
      kernels::table().direct.reverse_weights(args, task.block);
    });
  }
};

// The roles of input and output channels exchanged within each block, as oneDNN's backward wants
// them.
class TransposeWeightsOp final : public WeightsOp {
 public:
  explicit TransposeWeightsOp(const ConvShape& shape)
      : WeightsOp(shape, conv_weights_count(shape, ConvAlgorithm::kOneDnn),
                  kernels::channel_blocks(shape.oc)) {}
  std::string_view kind() const override { return "transpose_weights"; }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    const int tiles = kernels::channel_blocks(shape_.ic) * shape_.kh * shape_.kw;
    return make_kernel("own", [tiles](const Task& task) {
      const std::ptrdiff_t start = static_cast<std::ptrdiff_t>(task.block) * tiles * 64;
      const float* from = task.inputs[0].at() + start;
      float* to = task.outputs[0].at() + start;
      for (int tile = 0; tile < tiles; ++tile, from += 64, to += 64) {
        for (int i = 0; i < 8; ++i) {
          for (int o = 0; o < 8; ++o) to[o * 8 + i] = from[i * 8 + o];
        }
      }
    });
  }
};

// ---- bias gradient

class BiasGradientOp final : public Op {
 public:
  explicit BiasGradientOp(const ConvShape& shape) : shape_(shape) {}
  std::string_view kind() const override { return "conv2d_backward_bias"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    return {conv_vector_type(bias_count(shape_))};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.blocks = kernels::channel_blocks(shape_.oc);
    traits.flops_per_sample = static_cast<double>(shape_.oc) * shape_.oh * shape_.ow;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own", [pixels = std::ptrdiff_t{shape_.oh} * shape_.ow](const Task& task) {
      const kernels::BiasGradient args{pixels, task.inputs[0].at(task.begin),
                                       float_stride(task.inputs[0]), task.outputs[0].at(),
                                       task.begin == 0};
      kernels::table().conv_bias.gradient(args, samples(task), task.block);
    });
  }

 private:
  ConvShape shape_;
};

// ---- oneDNN's backward-weights overwrites, so each task adds sample after sample from its scratch

// Output channels that one task computes; fixed, so that the sums are.
constexpr int kSliceBlocks = 4;

ConvShape slice_of(const ConvShape& s, int slice) {
  ConvShape part = s;
  part.oc = std::min(kernels::channel_blocks(s.oc) - slice * kSliceBlocks, kSliceBlocks) * 8;
  return part;
}
int slice_count(const ConvShape& s) {
  return kernels::ceil_div(kernels::channel_blocks(s.oc), kSliceBlocks);
}
std::size_t slice_weights(const ConvShape& s) {
  return conv_weights_count(slice_of(s, 0), ConvAlgorithm::kOneDnn);
}

std::unique_ptr<Kernel> bind_onednn_backward_weights(const ConvShape& s, int threads) {
  std::vector<std::shared_ptr<OneDnnConvolution>> slices;
  for (int slice = 0; slice < slice_count(s); ++slice) {
    const bool same = slice > 0 && slice_of(s, slice).oc == slice_of(s, 0).oc;
    slices.push_back(
        same ? slices[0]
             : std::make_shared<OneDnnConvolution>(OneDnnConvolution::Options{
                   OneDnnDirection::kBackwardWeights, slice_of(s, slice), false, false, threads}));
  }
  std::string implementation = slices[0]->implementation();
  return make_kernel(std::move(implementation), [s, slices](const Task& task) {
    const auto count = static_cast<std::int64_t>(
        conv_weights_count(slice_of(s, task.block), ConvAlgorithm::kOneDnn));
    float* partial = scratch_of(task);
    auto* scratchpad = reinterpret_cast<std::byte*>(partial + slice_weights(s));
    const std::size_t plane = static_cast<std::size_t>(s.oh) * static_cast<std::size_t>(s.ow) * 8;
    float* weights = task.outputs[0].at() + static_cast<std::size_t>(task.block) * slice_weights(s);
    for (std::int64_t n = task.begin; n < task.end; ++n) {
      float* diff_dst =
          task.inputs[1].at(n) + static_cast<std::size_t>(task.block * kSliceBlocks) * plane;
      slices[static_cast<std::size_t>(task.block)]->execute(task.thread, task.inputs[0].at(n),
                                                            partial, nullptr, diff_dst, scratchpad);
      if (n == 0) {
        std::memcpy(weights, partial, static_cast<std::size_t>(count) * sizeof(float));
      } else {
        kernels::table().elementwise.accumulate(partial, weights, count);
      }
    }
  });
}

// ---- backward weights

class BackwardWeightsOp final : public Op {
 public:
  BackwardWeightsOp(const ConvShape& shape, ConvAlgorithm algorithm)
      : shape_(shape), algorithm_(algorithm) {
    if (algorithm != ConvAlgorithm::kOneDnn) return;
    for (const int slice : {0, slice_count(shape) - 1}) {
      scratchpad_ =
          std::max(scratchpad_,
                   OneDnnConvolution::scratchpad_bytes({OneDnnDirection::kBackwardWeights,
                                                        slice_of(shape, slice), false, false, 1}));
    }
  }
  std::string_view kind() const override { return "conv2d_backward_weights"; }
  // Winograd's gradient stays in the transformed domain until all samples are in.
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    return {conv_vector_type(algorithm_ == ConvAlgorithm::kWinograd
                                 ? winograd_count(shape_, WinogradDirection::kForward)
                                 : conv_weights_count(shape_, algorithm_))};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.flops_per_sample = conv_flops(shape_);
    switch (algorithm_) {
      case ConvAlgorithm::kWinograd:
        traits.flops_per_sample /= 3;
        traits.blocks = kernels::winograd_backward_weights_blocks(shape_);
        traits.thread_scratch_bytes = kernels::winograd_backward_weights_scratch_bytes(shape_);
        break;
      case ConvAlgorithm::kDepthwise:
        traits.blocks = kernels::depthwise_backward_weights_blocks(shape_);
        traits.thread_scratch_bytes = kernels::depthwise_scratch_bytes(shape_);
        traits.efficiency = 0.2;
        break;
      case ConvAlgorithm::kOneDnn:
        traits.blocks = slice_count(shape_);
        traits.thread_scratch_bytes = slice_weights(shape_) * sizeof(float) + scratchpad_ + 64;
        break;
      default:
        traits.blocks = kernels::direct_backward_weights_blocks(shape_);
        traits.thread_scratch_bytes = kernels::direct_scratch_bytes(shape_);
    }
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int threads) const override {
    if (algorithm_ == ConvAlgorithm::kOneDnn) return bind_onednn_backward_weights(shape_, threads);
    if (algorithm_ == ConvAlgorithm::kWinograd) {
      return make_kernel("own winograd", [s = shape_](const Task& task) {
        kernels::WinogradBackwardWeights args;
        args.shape = s;
        args.src = task.inputs[0].at(task.begin);
        args.src_stride = float_stride(task.inputs[0]);
        args.diff_dst = task.inputs[1].at(task.begin);
        args.diff_dst_stride = float_stride(task.inputs[1]);
        args.du = task.outputs[0].at();
        args.first = task.begin == 0;
        kernels::table().winograd.backward_weights(args, samples(task), task.block,
                                                   scratch_of(task));
      });
    }
    const bool depthwise = algorithm_ == ConvAlgorithm::kDepthwise;
    return make_kernel(depthwise ? "own depthwise" : "own direct",
                       [s = shape_, depthwise](const Task& task) {
                         kernels::ConvBackwardWeights args;
                         args.shape = s;
                         args.src = task.inputs[0].at(task.begin);
                         args.src_stride = float_stride(task.inputs[0]);
                         args.diff_dst = task.inputs[1].at(task.begin);
                         args.diff_dst_stride = float_stride(task.inputs[1]);
                         args.diff_weights = task.outputs[0].at();
                         args.first = task.begin == 0;
                         const auto run = depthwise ? kernels::table().depthwise.backward_weights
                                                    : kernels::table().direct.backward_weights;
                         run(args, samples(task), task.block, scratch_of(task));
                       });
  }

 private:
  ConvShape shape_;
  ConvAlgorithm algorithm_;
  std::size_t scratchpad_ = 0;
};

// ---- forward and backward data, which differ little

// Traits that both directions share.
OpTraits pass_traits(const ConvShape& s, ConvAlgorithm algorithm, bool backward,
                     std::size_t scratchpad) {
  OpTraits traits;
  traits.flops_per_sample = conv_flops(s);
  switch (algorithm) {
    case ConvAlgorithm::kWinograd: {
      const auto direction =
          backward ? WinogradDirection::kBackwardData : WinogradDirection::kForward;
      traits.flops_per_sample /= 3;
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
      traits.samples_per_task = kernels::direct_sample_group(s);
      traits.thread_scratch_bytes = kernels::direct_scratch_bytes(s);
  }
  return traits;
}

std::unique_ptr<Kernel> bind_winograd_pass(const ConvShape& s, WinogradDirection direction,
                                           bool bias, bool relu) {
  const int groups = kernels::winograd_groups(s, direction);
  return make_kernel("own winograd", [s, direction, bias, relu, groups](const Task& task) {
    kernels::WinogradPass args;
    args.shape = s;
    args.direction = direction;
    args.src = task.inputs[0].at(task.begin);
    args.src_stride = float_stride(task.inputs[0]);
    args.u = task.inputs[1].at();
    args.group_end = groups;
    args.bias = bias ? task.inputs[2].at() : nullptr;
    args.dst = task.outputs[0].at(task.begin);
    args.dst_stride = float_stride(task.outputs[0]);
    args.relu = relu;
    kernels::table().winograd.pass(args, samples(task), task.block, scratch_of(task));
  });
}

// Inputs: gradient of the output, prepared weights.
class BackwardDataOp final : public Op {
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
    if (algorithm_ == ConvAlgorithm::kWinograd) {
      return bind_winograd_pass(shape_, WinogradDirection::kBackwardData, false, false);
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
                         kernels::ConvBackwardData args;
                         args.shape = s;
                         args.diff_dst = task.inputs[0].at(task.begin);
                         args.diff_dst_stride = float_stride(task.inputs[0]);
                         args.weights = task.inputs[1].at();
                         args.diff_src = task.outputs[0].at(task.begin);
                         args.diff_src_stride = float_stride(task.outputs[0]);
                         const auto run = depthwise ? kernels::table().depthwise.backward_data
                                                    : kernels::table().direct.backward_data;
                         run(args, samples(task), task.block, scratch_of(task));
                       });
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

class BlockedConvOp final : public Op {
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
    if (algorithm_ == ConvAlgorithm::kWinograd) {
      return bind_winograd_pass(shape_, WinogradDirection::kForward, bias_, relu_);
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
                         kernels::ConvForward args;
                         args.shape = s;
                         args.relu = relu;
                         args.src = task.inputs[0].at(task.begin);
                         args.src_stride = float_stride(task.inputs[0]);
                         args.weights = task.inputs[1].at();
                         args.bias = bias ? task.inputs[2].at() : nullptr;
                         args.dst = task.outputs[0].at(task.begin);
                         args.dst_stride = float_stride(task.outputs[0]);
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

  void gradient(GradientBuilder& builder) const override {
    ValueId diff_dst = builder.output_gradient(0);
    if (relu_) {
      diff_dst = builder.emit1(make_activation_backward({kernels::Activation::kRelu}),
                               {builder.output(0), diff_dst});
    }
    if (bias_ && builder.wants(2)) {
      builder.set_input_gradient(2, builder.emit1(std::make_shared<BiasGradientOp>(shape_),
                                                  {diff_dst}, Category::kGradients));
    }
    // Weights first: the saved input can go before its gradient comes.
    if (builder.wants(1)) {
      builder.set_input_gradient(
          1, builder.emit1(std::make_shared<BackwardWeightsOp>(shape_, algorithm_),
                           {builder.input(0), diff_dst}, Category::kGradients));
    }
    if (builder.wants(0)) {
      builder.set_input_gradient(
          0, builder.emit1(std::make_shared<BackwardDataOp>(shape_, algorithm_,
                                                            builder.type(builder.input(0))),
                           {diff_dst, backward_weights_input(builder)}));
    }
  }

 private:
  OneDnnConvolution::Options options(int threads) const {
    return {OneDnnDirection::kForward, shape_, bias_, relu_, threads};
  }
  // The weights in the form that the backward pass of the family reads.
  ValueId backward_weights_input(GradientBuilder& builder) const {
    switch (algorithm_) {
      case ConvAlgorithm::kWinograd:
        return builder.emit1(
            std::make_shared<WinogradWeightsOp>(shape_, WinogradDirection::kBackwardData),
            {builder.input(builder.input_count() - 1)}, Category::kScratch);
      case ConvAlgorithm::kDirect:
        return builder.emit1(std::make_shared<ReverseWeightsOp>(shape_), {builder.input(1)},
                             Category::kScratch);
      case ConvAlgorithm::kOneDnn:
        return builder.emit1(std::make_shared<TransposeWeightsOp>(shape_), {builder.input(1)},
                             Category::kScratch);
      default:
        return builder.input(1);
    }
  }
  ConvShape shape_;
  ConvAlgorithm algorithm_;
  bool bias_, relu_;
  std::size_t scratchpad_ = 0;
};

}  // namespace

std::shared_ptr<const Op> make_winograd_weights_op(const ConvShape& shape) {
  return std::make_shared<WinogradWeightsOp>(shape, WinogradDirection::kForward);
}

std::shared_ptr<const Op> make_blocked_conv_op(const ConvShape& shape, ConvAlgorithm algorithm,
                                               bool bias) {
  return std::make_shared<BlockedConvOp>(shape, algorithm, bias, false);
}

}  // namespace surefit
