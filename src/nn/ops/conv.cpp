// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/conv.hpp"

#include <cstring>

#include "base/check.hpp"
#include "engine/kernels/table.hpp"
#include "engine/onednn.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/activation.hpp"
#include "nn/ops/kernel.hpp"
#include "nn/ops/pool.hpp"

namespace surefit {
namespace {

using kernels::ConvShape;
using Direction = OneDnnConvolution::Direction;

double conv_flops(const ConvShape& s) {
  return 2.0 * s.oc * s.oh * s.ow * s.kh * s.kw * s.ic / s.groups;
}

std::size_t weights_count(const ConvShape& s, ConvAlgorithm algorithm) {
  if (algorithm == ConvAlgorithm::kFirst) return kernels::first_weights_floats(s);
  return static_cast<std::size_t>(kernels::round_up(s.ic, 8)) * static_cast<std::size_t>(kernels::round_up(s.oc, 8)) *
         static_cast<std::size_t>(s.kh * s.kw);
}

ValueType vector_type(std::size_t count) {
  ValueType type;
  type.shape = Shape{static_cast<std::int64_t>(count)};
  type.batched = false;
  return type;
}

ValueType output_type(const ConvShape& s) { return ValueType::blocked({s.oh, s.ow, s.oc}); }
std::size_t bias_count(const ConvShape& s) { return static_cast<std::size_t>(kernels::round_up(s.oc, 8)); }

kernels::Samples samples(const Task& task) { return {0, static_cast<int>(task.end - task.begin)}; }
float* scratch_of(const Task& task) { return reinterpret_cast<float*>(task.thread_scratch); }

// Output channels that one task of oneDNN's backward-weights computes; fixed, so that the sums are.
constexpr int kSliceBlocks = 4;

ConvShape slice_of(const ConvShape& s, int slice) {
  ConvShape part = s;
  const int first = slice * kSliceBlocks;
  part.oc = std::min(kernels::channel_blocks(s.oc) - first, kSliceBlocks) * 8;
  return part;
}

int slice_count(const ConvShape& s) { return kernels::ceil_div(kernels::channel_blocks(s.oc), kSliceBlocks); }

std::size_t slice_weights(const ConvShape& s) { return weights_count(slice_of(s, 0), ConvAlgorithm::kOneDnn); }

// ---- backward weights

class ConvBackwardWeightsOp final : public Op {
 public:
  ConvBackwardWeightsOp(const ConvShape& shape, ConvAlgorithm algorithm, bool bias)
      : shape_(shape), algorithm_(algorithm), bias_(bias) {
    if (algorithm == ConvAlgorithm::kOneDnn) {
      for (int slice = 0; slice < slice_count(shape); slice += std::max(1, slice_count(shape) - 1)) {
        scratchpad_ = std::max(scratchpad_, OneDnnConvolution::scratchpad_bytes(
                                                {Direction::kBackwardWeights, slice_of(shape, slice), bias, false, 1}));
      }
    }
  }

  std::string_view kind() const override { return "conv2d_backward_weights"; }

  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    std::vector<ValueType> types = {vector_type(weights_count(shape_, algorithm_))};
    if (bias_) types.push_back(vector_type(bias_count(shape_)));
    return types;
  }

  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.flops_per_sample = conv_flops(shape_);
    if (algorithm_ == ConvAlgorithm::kFirst) {
      traits.blocks = kernels::first_backward_weights_blocks(shape_);
      traits.thread_scratch_bytes = kernels::first_scratch_bytes(shape_);
    } else if (algorithm_ == ConvAlgorithm::kDirect) {
      traits.blocks = kernels::direct_backward_weights_blocks(shape_);
      traits.thread_scratch_bytes = kernels::direct_scratch_bytes(shape_);
    } else {
      traits.blocks = slice_count(shape_);
      traits.thread_scratch_bytes = (slice_weights(shape_) + kSliceBlocks * 8) * sizeof(float) + scratchpad_ + 64;
    }
    return traits;
  }

  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>, int threads) const override {
    if (algorithm_ == ConvAlgorithm::kOneDnn) return bind_onednn(threads);
    const bool first = algorithm_ == ConvAlgorithm::kFirst;
    return bind_own(first ? "own first" : "own direct",
                    first ? kernels::table().first.backward_weights : kernels::table().direct.backward_weights);
  }

 private:
  std::unique_ptr<Kernel> bind_own(std::string name, kernels::ConvBackwardWeightsFn run) const {
    kernels::ConvBackwardWeights args;
    args.shape = shape_;
    const bool bias = bias_;
    return make_kernel(std::move(name), [args, bias, run](const Task& task) {
      kernels::ConvBackwardWeights own = args;
      own.src = task.inputs[0].at(task.begin);
      own.src_stride = float_stride(task.inputs[0]);
      own.diff_dst = task.inputs[1].at(task.begin);
      own.diff_dst_stride = float_stride(task.inputs[1]);
      own.diff_weights = task.outputs[0].at();
      own.diff_bias = bias ? task.outputs[1].at() : nullptr;
      own.first = task.begin == 0;
      run(own, samples(task), task.block, scratch_of(task));
    });
  }

  std::unique_ptr<Kernel> bind_onednn(int threads) const {
    std::vector<std::shared_ptr<OneDnnConvolution>> slices;
    for (int slice = 0; slice < slice_count(shape_); ++slice) {
      const bool same = slice > 0 && slice_of(shape_, slice).oc == slice_of(shape_, 0).oc;
      slices.push_back(same ? slices[0]
                            : std::make_shared<OneDnnConvolution>(OneDnnConvolution::Options{
                                  Direction::kBackwardWeights, slice_of(shape_, slice), bias_, false, threads}));
    }
    const ConvShape s = shape_;
    const bool bias = bias_;
    std::string implementation = slices[0]->implementation();
    return make_kernel(std::move(implementation), [s, bias, slices](const Task& task) {
      const ConvShape part = slice_of(s, task.block);
      const std::size_t count = weights_count(part, ConvAlgorithm::kOneDnn);
      float* partial = scratch_of(task);
      float* partial_bias = partial + slice_weights(s);
      std::byte* scratchpad = reinterpret_cast<std::byte*>(partial_bias + kSliceBlocks * 8);
      const std::size_t plane = static_cast<std::size_t>(s.oh) * static_cast<std::size_t>(s.ow) * 8;
      float* weights = task.outputs[0].at() + static_cast<std::size_t>(task.block) * slice_weights(s);
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        float* diff_dst = task.inputs[1].at(n) + static_cast<std::size_t>(task.block * kSliceBlocks) * plane;
        slices[static_cast<std::size_t>(task.block)]->execute(task.thread, task.inputs[0].at(n), partial, partial_bias,
                                                              diff_dst, scratchpad);
        const auto add = [&](const float* from, float* to, std::size_t floats) {
          if (n == 0) {
            std::memcpy(to, from, floats * sizeof(float));
          } else {
            kernels::table().elementwise.accumulate(from, to, static_cast<std::int64_t>(floats));
          }
        };
        add(partial, weights, count);
        if (bias) add(partial_bias, task.outputs[1].at() + task.block * kSliceBlocks * 8, static_cast<std::size_t>(part.oc));
      }
    });
  }

  ConvShape shape_;
  ConvAlgorithm algorithm_;
  bool bias_;
  std::size_t scratchpad_ = 0;
};

// ---- backward data

// Weights with the roles of input and output channels exchanged within each block, as oneDNN's backward wants them.
class ConvTransposeWeightsOp final : public Op {
 public:
  explicit ConvTransposeWeightsOp(const ConvShape& shape) : shape_(shape) {}
  std::string_view kind() const override { return "conv2d_transpose_weights"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override { return {inputs[0]}; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kBatchFree;
    traits.blocks = kernels::channel_blocks(shape_.oc);
    traits.flops_per_step = static_cast<double>(weights_count(shape_, ConvAlgorithm::kOneDnn));
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>, int) const override {
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

 private:
  ConvShape shape_;
};

// The same for the own direct kernel.
class ConvReverseWeightsOp final : public Op {
 public:
  explicit ConvReverseWeightsOp(const ConvShape& shape) : shape_(shape) {}
  std::string_view kind() const override { return "conv2d_transpose_weights"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    return {vector_type(kernels::direct_reversed_floats(shape_))};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kBatchFree;
    traits.blocks = kernels::direct_reverse_blocks(shape_);
    traits.flops_per_step = static_cast<double>(kernels::direct_reversed_floats(shape_));
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>, int) const override {
    return make_kernel("own direct", [s = shape_](const Task& task) {
      kernels::table().direct.reverse_weights({s, task.inputs[0].at(), task.outputs[0].at()}, task.block);
    });
  }

 private:
  ConvShape shape_;
};

class ConvBackwardDataOp final : public Op {
 public:
  ConvBackwardDataOp(const ConvShape& shape, ConvAlgorithm algorithm, ValueType input)
      : shape_(shape), algorithm_(algorithm), input_(std::move(input)) {
    if (algorithm == ConvAlgorithm::kOneDnn) scratchpad_ = OneDnnConvolution::scratchpad_bytes(options(1));
  }
  std::string_view kind() const override { return "conv2d_backward_data"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {input_}; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.flops_per_sample = conv_flops(shape_);
    if (algorithm_ == ConvAlgorithm::kFirst) {
      traits.blocks = kernels::first_backward_data_blocks(shape_);
      traits.thread_scratch_bytes = kernels::first_scratch_bytes(shape_);
    } else if (algorithm_ == ConvAlgorithm::kDirect) {
      traits.blocks = kernels::direct_backward_data_blocks(shape_);
      traits.thread_scratch_bytes = kernels::direct_scratch_bytes(shape_);
      traits.samples_per_task = kernels::direct_sample_group(shape_);
    } else {
      traits.thread_scratch_bytes = scratchpad_;
    }
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>, int threads) const override {
    if (algorithm_ != ConvAlgorithm::kOneDnn) {
      const ConvShape s = shape_;
      const bool first = algorithm_ == ConvAlgorithm::kFirst;
      const auto run = first ? kernels::table().first.backward_data : kernels::table().direct.backward_data;
      return make_kernel(first ? "own first" : "own direct", [s, run](const Task& task) {
        kernels::ConvBackwardData own;
        own.shape = s;
        own.diff_dst = task.inputs[0].at(task.begin);
        own.diff_dst_stride = float_stride(task.inputs[0]);
        own.weights = task.inputs[1].at();
        own.diff_src = task.outputs[0].at(task.begin);
        own.diff_src_stride = float_stride(task.outputs[0]);
        run(own, samples(task), task.block, scratch_of(task));
      });
    }
    const auto conv = std::make_shared<OneDnnConvolution>(options(threads));
    return make_kernel(conv->implementation(), [conv](const Task& task) {
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        conv->execute(task.thread, task.outputs[0].at(n), task.inputs[1].at(), nullptr, task.inputs[0].at(n),
                      task.thread_scratch);
      }
    });
  }

 private:
  OneDnnConvolution::Options options(int threads) const {
    return {Direction::kBackwardData, shape_, false, false, threads};
  }
  ConvShape shape_;
  ConvAlgorithm algorithm_;
  ValueType input_;
  std::size_t scratchpad_ = 0;
};

// ---- first block: convolution, relu and pooling in one pass

class FirstPoolBackwardOp final : public Op {
 public:
  FirstPoolBackwardOp(const ConvShape& shape, bool bias) : shape_(shape), bias_(bias) {}
  std::string_view kind() const override { return "conv2d_pool_backward_weights"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    std::vector<ValueType> types = {vector_type(weights_count(shape_, ConvAlgorithm::kFirst))};
    if (bias_) types.push_back(vector_type(bias_count(shape_)));
    return types;
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.blocks = kernels::first_pool_backward_weights_blocks(shape_);
    traits.thread_scratch_bytes = kernels::first_pool_scratch_bytes(shape_);
    traits.flops_per_sample = conv_flops(shape_);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>, int) const override {
    const ConvShape s = shape_;
    const bool bias = bias_;
    return make_kernel("own first pool", [s, bias](const Task& task) {
      kernels::FirstPoolBackwardWeights own;
      own.shape = s;
      own.src = task.inputs[0].at(task.begin);
      own.src_stride = float_stride(task.inputs[0]);
      own.diff_dst = task.inputs[1].at(task.begin);
      own.argmax = task.inputs[2].at<std::uint8_t>(task.begin);
      own.diff_dst_stride = float_stride(task.inputs[1]);
      own.diff_weights = task.outputs[0].at();
      own.diff_bias = bias ? task.outputs[1].at() : nullptr;
      own.first = task.begin == 0;
      kernels::table().first_pool.backward_weights(own, samples(task), task.block, scratch_of(task));
    });
  }

 private:
  ConvShape shape_;
  bool bias_;
};

// Inputs: picture, kernel, [bias]. Outputs: the pooled picture and which element of each window won.
class FirstPoolOp final : public Op {
 public:
  FirstPoolOp(const ConvShape& shape, bool bias) : shape_(shape), bias_(bias), no_bias_(bias_count(shape), 0.0f) {}
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
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>, int) const override {
    const ConvShape s = shape_;
    const bool bias = bias_;
    return make_kernel("own first pool", [s, bias, zeros = no_bias_](const Task& task) {
      kernels::FirstPoolForward own;
      own.shape = s;
      own.src = task.inputs[0].at(task.begin);
      own.src_stride = float_stride(task.inputs[0]);
      own.weights = task.inputs[1].at();
      own.bias = bias ? task.inputs[2].at() : zeros.data();
      own.dst = task.outputs[0].at(task.begin);
      own.argmax = task.outputs[1].at<std::uint8_t>(task.begin);
      own.dst_stride = float_stride(task.outputs[0]);
      kernels::table().first_pool.forward(own, samples(task), task.block, scratch_of(task));
    });
  }
  void gradient(GradientBuilder& builder) const override {
    SUREFIT_CHECK(!builder.wants(0), "a fused first block cannot give the gradient of its picture");
    const auto gradients =
        builder.emit(std::make_shared<FirstPoolBackwardOp>(shape_, bias_),
                     {builder.input(0), builder.output_gradient(0), builder.output(1)}, Category::kGradients);
    builder.set_input_gradient(1, gradients[0]);
    if (bias_) builder.set_input_gradient(2, gradients[1]);
  }

 private:
  ConvShape shape_;
  bool bias_;
  std::vector<float> no_bias_;
};

// ---- forward

class ConvOp final : public Op {
 public:
  ConvOp(const ConvShape& shape, ConvAlgorithm algorithm, const ConvOptions& conv_options)
      : shape_(shape),
        algorithm_(algorithm),
        bias_(conv_options.bias),
        relu_(conv_options.relu),
        outer_picture_(conv_options.outer_picture),
        no_bias_(bias_count(shape), 0.0f) {
    if (algorithm == ConvAlgorithm::kOneDnn) scratchpad_ = OneDnnConvolution::scratchpad_bytes(options(1));
  }
  std::string_view kind() const override { return relu_ ? "conv2d_relu" : "conv2d"; }
  Layout preferred_layout(std::size_t index, const ValueType& type) const override {
    if (index > 0) return type.layout;
    return algorithm_ == ConvAlgorithm::kFirst ? Layout::kPlain : Layout::kBlocked;
  }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {output_type(shape_)}; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.flops_per_sample = conv_flops(shape_);
    if (algorithm_ == ConvAlgorithm::kFirst) {
      traits.blocks = kernels::first_forward_blocks(shape_);
      traits.thread_scratch_bytes = kernels::first_scratch_bytes(shape_);
    } else if (algorithm_ == ConvAlgorithm::kDirect) {
      traits.blocks = kernels::direct_forward_blocks(shape_);
      traits.thread_scratch_bytes = kernels::direct_scratch_bytes(shape_);
      traits.samples_per_task = kernels::direct_sample_group(shape_);
    } else {
      traits.thread_scratch_bytes = scratchpad_;
    }
    return traits;
  }

  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>, int threads) const override {
    if (algorithm_ != ConvAlgorithm::kOneDnn) {
      kernels::ConvForward args;
      args.shape = shape_;
      args.relu = relu_;
      const bool first = algorithm_ == ConvAlgorithm::kFirst;
      const auto run = first ? kernels::table().first.forward : kernels::table().direct.forward;
      return make_kernel(first ? "own first" : "own direct", [args, run, bias = bias_, zeros = no_bias_](const Task& task) {
        kernels::ConvForward own = args;
        own.src = task.inputs[0].at(task.begin);
        own.src_stride = float_stride(task.inputs[0]);
        own.weights = task.inputs[1].at();
        own.bias = bias ? task.inputs[2].at() : zeros.data();
        own.dst = task.outputs[0].at(task.begin);
        own.dst_stride = float_stride(task.outputs[0]);
        run(own, samples(task), task.block, scratch_of(task));
      });
    }
    const auto conv = std::make_shared<OneDnnConvolution>(options(threads));
    return make_kernel(conv->implementation(), [conv, bias = bias_](const Task& task) {
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        conv->execute(task.thread, task.inputs[0].at(n), task.inputs[1].at(), bias ? task.inputs[2].at() : nullptr,
                      task.outputs[0].at(n), task.thread_scratch);
      }
    });
  }

  std::shared_ptr<const Op> absorb(const Op& consumer, std::size_t, std::span<const ValueType>) const override {
    if (!relu_) {
      if (!is_relu(consumer)) return nullptr;
      return std::make_shared<ConvOp>(shape_, algorithm_, ConvOptions{bias_, true, outer_picture_});
    }
    const auto* pool = dynamic_cast<const MaxPoolOp*>(&consumer);
    if (pool == nullptr || !pool->training() || algorithm_ != ConvAlgorithm::kFirst || !outer_picture_) return nullptr;
    const kernels::PoolShape& p = pool->shape();
    const bool halving = p.window_h == 2 && p.window_w == 2 && p.stride_h == 2 && p.stride_w == 2 && p.pad_top == 0 &&
                         p.pad_left == 0 && p.out_height == p.height / 2 && p.out_width == p.width / 2;
    const bool plain = shape_.stride_h == 1 && shape_.stride_w == 1 && shape_.dilation_h == 1 && shape_.dilation_w == 1;
    return halving && plain ? std::make_shared<FirstPoolOp>(shape_, bias_) : nullptr;
  }

  void gradient(GradientBuilder& builder) const override {
    ValueId diff_dst = builder.output_gradient(0);
    if (relu_) {
      diff_dst = builder.emit1(make_activation_backward({kernels::Activation::kRelu}), {builder.output(0), diff_dst});
    }
    // Weights first: the saved input can go before its gradient comes.
    if (builder.wants(1) || (bias_ && builder.wants(2))) {
      const auto gradients = builder.emit(std::make_shared<ConvBackwardWeightsOp>(shape_, algorithm_, bias_),
                                          {builder.input(0), diff_dst}, Category::kGradients);
      builder.set_input_gradient(1, gradients[0]);
      if (bias_) builder.set_input_gradient(2, gradients[1]);
    }
    if (builder.wants(0)) {
      ValueId weights = builder.input(1);
      if (algorithm_ == ConvAlgorithm::kOneDnn) {
        weights = builder.emit1(std::make_shared<ConvTransposeWeightsOp>(shape_), {weights}, Category::kScratch);
      } else if (algorithm_ == ConvAlgorithm::kDirect) {
        weights = builder.emit1(std::make_shared<ConvReverseWeightsOp>(shape_), {weights}, Category::kScratch);
      }
      builder.set_input_gradient(
          0, builder.emit1(std::make_shared<ConvBackwardDataOp>(shape_, algorithm_, builder.type(builder.input(0))),
                           {diff_dst, weights}));
    }
  }

 private:
  OneDnnConvolution::Options options(int threads) const {
    return {Direction::kForward, shape_, bias_, relu_, threads};
  }
  ConvShape shape_;
  ConvAlgorithm algorithm_;
  bool bias_, relu_, outer_picture_;
  std::size_t scratchpad_ = 0;
  std::vector<float> no_bias_;
};

// ---- parameter layouts

class ConvKernelPacking final : public Packing {
 public:
  ConvKernelPacking(const ConvShape& shape, ConvAlgorithm algorithm) : s_(shape), algorithm_(algorithm) {}
  std::size_t stored_count() const override { return weights_count(s_, algorithm_); }
  void pack(const float* keras, float* engine) const override {
    std::memset(engine, 0, stored_count() * sizeof(float));
    for_each([&](std::size_t k, std::size_t e) { engine[e] = keras[k]; });
  }
  void unpack(const float* engine, float* keras) const override {
    for_each([&](std::size_t k, std::size_t e) { keras[k] = engine[e]; });
  }

 private:
  template <typename Visit>
  void for_each(const Visit& visit) const {
    std::size_t keras = 0;
    for (int h = 0; h < s_.kh; ++h) {
      for (int w = 0; w < s_.kw; ++w) {
        for (int i = 0; i < s_.ic; ++i) {
          for (int o = 0; o < s_.oc; ++o) visit(keras++, engine_index(h, w, i, o));
        }
      }
    }
  }
  std::size_t engine_index(int h, int w, int i, int o) const {
    const auto at = [](std::size_t base, int extent, int index) {
      return base * static_cast<std::size_t>(extent) + static_cast<std::size_t>(index);
    };
    std::size_t index = static_cast<std::size_t>(o / 8);
    if (algorithm_ == ConvAlgorithm::kFirst) {
      return at(at(at(at(index, s_.kh, h), s_.kw, w), s_.ic, i), 8, o % 8);
    }
    index = at(at(at(index, kernels::channel_blocks(s_.ic), i / 8), s_.kh, h), s_.kw, w);
    return at(at(index, 8, i % 8), 8, o % 8);
  }
  ConvShape s_;
  ConvAlgorithm algorithm_;
};

class ChannelPacking final : public Packing {
 public:
  explicit ChannelPacking(std::int64_t count) : count_(static_cast<std::size_t>(count)) {}
  std::size_t stored_count() const override { return (count_ + 7) / 8 * 8; }
  void pack(const float* keras, float* engine) const override {
    std::memset(engine, 0, stored_count() * sizeof(float));
    std::memcpy(engine, keras, count_ * sizeof(float));
  }
  void unpack(const float* engine, float* keras) const override { std::memcpy(keras, engine, count_ * sizeof(float)); }

 private:
  std::size_t count_;
};

}  // namespace

ConvAlgorithm choose_algorithm(const ConvShape& shape, Layout input) {
  if (input == Layout::kPlain && shape.ic <= kMaxPlainChannels) return ConvAlgorithm::kFirst;
  // All passes and both widths of slices, whatever the purpose: training and inference must agree.
  bool served = true;
  for (const Direction direction : {Direction::kForward, Direction::kBackwardData, Direction::kBackwardWeights}) {
    served = served && OneDnnConvolution::available({direction, shape, false, false, 1});
  }
  for (int slice = 0; slice < slice_count(shape); slice += std::max(1, slice_count(shape) - 1)) {
    served = served && OneDnnConvolution::available({Direction::kBackwardWeights, slice_of(shape, slice), false, false, 1});
  }
  return served ? ConvAlgorithm::kOneDnn : ConvAlgorithm::kDirect;
}

std::shared_ptr<const Packing> conv_kernel_packing(const ConvShape& shape, ConvAlgorithm algorithm) {
  return std::make_shared<ConvKernelPacking>(shape, algorithm);
}

std::shared_ptr<const Packing> channel_packing(std::int64_t count) { return std::make_shared<ChannelPacking>(count); }

std::shared_ptr<const Op> make_conv_op(const ConvShape& shape, ConvAlgorithm algorithm, const ConvOptions& options) {
  return std::make_shared<ConvOp>(shape, algorithm, options);
}

}  // namespace surefit
