// SPDX-License-Identifier: Apache-2.0
// What happens to the weights of blocked convolutions: preparing them, and their gradients.
#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "engine/kernels/table.hpp"
#include "engine/onednn.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/conv_blocked.hpp"
#include "nn/ops/conv_task.hpp"

namespace surefit {
namespace {

using kernels::ConvShape;
using kernels::WinogradDirection;
using OneDnnDirection = OneDnnConvolution::Direction;

// ---- preparing weights: nodes that do not see the batch

// A node that turns the kernel (or its gradient) into another form, one block at a time.
class WeightsOp : public Op {
 public:
  WeightsOp(const ConvShape& shape, std::size_t output_count, int blocks)
      : shape_(shape), output_count_(output_count), blocks_(blocks) {}
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    return {float_vector(output_count_)};
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

// In the place of Winograd's weights where convolutions transform them themselves.
class NoWeightsOp final : public WeightsOp {
 public:
  explicit NoWeightsOp(const ConvShape& shape) : WeightsOp(shape, 1, 1) {}
  std::string_view kind() const override { return "winograd_weights"; }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("none", [](const Task& task) { *task.outputs[0].at() = 0; });
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
  std::shared_ptr<const Op> frugal() const override {
    return std::make_shared<NoWeightsOp>(shape_);
  }
  std::shared_ptr<const Op> absorb_few(const Op& consumer, std::int64_t samples) const override {
    const auto* reader = dynamic_cast<const WinogradReader*>(&consumer);
    return reader == nullptr ? nullptr : make_few_pass_op(reader->winograd_pass(), samples);
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
  BiasGradientOp(std::int64_t channels, std::int64_t pixels)
      : channels_(channels), pixels_(pixels) {}
  std::string_view kind() const override { return "conv2d_backward_bias"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    return {vector_type(round_up(channels_, kChannelBlock))};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.blocks = static_cast<int>(round_up(channels_, kChannelBlock) / kChannelBlock);
    traits.flops_per_sample = static_cast<double>(channels_ * pixels_);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own", [pixels = pixels_](const Task& task) {
      const kernels::BiasGradient args{pixels, task.inputs[0].at(task.begin),
                                       float_stride(task.inputs[0]), task.outputs[0].at(),
                                       task.begin == 0};
      kernels::table().conv_bias.gradient(args, samples(task), task.block);
    });
  }

 private:
  std::int64_t channels_, pixels_;
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
    return {float_vector(algorithm_ == ConvAlgorithm::kWinograd
                             ? winograd_count(shape_, WinogradDirection::kForward)
                             : conv_weights_count(shape_, algorithm_))};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.flops_per_sample = conv_flops(shape_);
    traits.samples_per_pass = samples_in_cache(shape_);
    switch (algorithm_) {
      case ConvAlgorithm::kWinograd:
        traits.flops_per_sample /= 3;
        traits.samples_per_pass =
            std::max(traits.samples_per_pass, kernels::winograd_gradient_samples(shape_));
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
        auto args = backward_weights_args<kernels::WinogradBackwardWeights>(s, task);
        args.du = task.outputs[0].at();
        kernels::table().winograd.backward_weights(args, samples(task), task.block,
                                                   scratch_of(task));
      });
    }
    const bool depthwise = algorithm_ == ConvAlgorithm::kDepthwise;
    return make_kernel(depthwise ? "own depthwise" : "own direct",
                       [s = shape_, depthwise](const Task& task) {
                         auto args = backward_weights_args<kernels::ConvBackwardWeights>(s, task);
                         args.diff_weights = task.outputs[0].at();
                         const auto run = depthwise ? kernels::table().depthwise.backward_weights
                                                    : kernels::table().direct.backward_weights;
                         run(args, samples(task), task.block, scratch_of(task));
                       });
  }
  std::shared_ptr<const Op> absorb_few(const Op& consumer, std::int64_t samples) const override {
    if (algorithm_ == ConvAlgorithm::kDirect)
      return make_direct_update_op(shape_, consumer, samples);
    const bool winograd = dynamic_cast<const WinogradGradientOp*>(&consumer) != nullptr;
    return winograd ? make_few_gradient_op(shape_, samples) : nullptr;
  }

 private:
  ConvShape shape_;
  ConvAlgorithm algorithm_;
  std::size_t scratchpad_ = 0;
};

}  // namespace

std::size_t winograd_count(const ConvShape& s, WinogradDirection direction) {
  return kernels::winograd_u_bytes(s, direction) / sizeof(float);
}

std::shared_ptr<const Op> make_winograd_weights_op(const ConvShape& shape,
                                                   WinogradDirection direction) {
  return std::make_shared<WinogradWeightsOp>(shape, direction);
}

std::shared_ptr<const Op> make_backward_weights_form_op(const ConvShape& shape,
                                                        ConvAlgorithm algorithm) {
  switch (algorithm) {
    case ConvAlgorithm::kWinograd:
      return make_winograd_weights_op(shape, WinogradDirection::kBackwardData);
    case ConvAlgorithm::kDirect:
      return std::make_shared<ReverseWeightsOp>(shape);
    case ConvAlgorithm::kOneDnn:
      return std::make_shared<TransposeWeightsOp>(shape);
    default:
      return nullptr;
  }
}

std::shared_ptr<const Op> make_conv_backward_weights_op(const ConvShape& shape,
                                                        ConvAlgorithm algorithm) {
  return std::make_shared<BackwardWeightsOp>(shape, algorithm);
}

std::shared_ptr<const Op> make_winograd_gradient_op(const ConvShape& shape) {
  return std::make_shared<WinogradGradientOp>(shape);
}

std::shared_ptr<const Op> make_bias_gradient_op(std::int64_t channels, std::int64_t pixels) {
  return std::make_shared<BiasGradientOp>(channels, pixels);
}

}  // namespace surefit
