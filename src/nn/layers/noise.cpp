// SPDX-License-Identifier: Apache-2.0
// Dropout, SpatialDropout2D and GaussianNoise. The random word of an element is drawn anew each
// time from (seed, layer, step, sample), so nothing is stored and backward sees the same.
#include <array>
#include <fmt/format.h>

#include "engine/kernels/table.hpp"
#include "nn/layers/common.hpp"
#include "nn/ops/kernel.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

kernels::PhiloxStream stream_of(const RandomKey& key, Purpose purpose, const Task& task,
                                std::int64_t n) {
  return kernels::philox_stream(key.seed.value_or(task.step->seed), purpose, key.layer,
                                task.step->step, static_cast<std::uint64_t>(n));
}

void check_rate(std::string_view layer, double rate) {
  if (!(rate >= 0 && rate < 1))
    throw ConfigError(
        fmt::format("[{}] rate; expected at least 0 and below 1; got {}", layer, rate));
}

// Multiplying by the mask is its own gradient.
std::shared_ptr<const Op> make_mask_op(std::string_view kind, const ValueType& type,
                                       std::function<void(const Task&)> run) {
  const auto gradient = [kind, type, run](GradientBuilder& builder) {
    builder.set_input_gradient(
        0, builder.emit1(make_mask_op(kind, type, run), {builder.output_gradient(0)}));
  };
  return make_sample_op({.kind = kind,
                         .outputs = {type},
                         .layout = type.layout,
                         .in_place_input = 0,
                         .flops_per_element = 10,
                         .run = run,
                         .gradient = gradient});
}

class DropoutImpl final : public LayerImpl {
 public:
  explicit DropoutImpl(const Dropout& spec) : spec_(spec) {
    check_rate(Dropout::kClass, spec.rate);
    if (spec.noise_shape) throw ConfigError("[Dropout] noise_shape is not supported yet");
  }
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1) throw ConfigError("expected one input");
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    if (!builder.training() || spec_.rate == 0) return inputs[0];
    const ValueType& type = builder.type(inputs[0]);
    kernels::DropoutArgs args;
    args.threshold = kernels::dropout_threshold(spec_.rate);
    args.scale = static_cast<float>(1 / (1 - spec_.rate));
    args.end = static_cast<std::int64_t>(type.stored_count());
    const auto run = [args, key = random_key(builder, spec_.seed)](const Task& task) {
      kernels::DropoutArgs own = args;
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        own.stream = stream_of(key, Purpose::kDropout, task, n);
        own.src = task.inputs[0].at(n);
        own.dst = task.outputs[0].at(n);
        kernels::table().noise.dropout(own);
      }
    };
    return builder.emit1(make_mask_op("dropout", type, run), {inputs[0]});
  }

 private:
  Dropout spec_;
};

class SpatialDropout2DImpl final : public LayerImpl {
 public:
  explicit SpatialDropout2DImpl(const SpatialDropout2D& spec) : spec_(spec) {
    check_rate(SpatialDropout2D::kClass, spec.rate);
    require_channels_last(spec.data_format);
  }
  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 3, "a picture (height, width, channels)");
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    if (!builder.training() || spec_.rate == 0) return inputs[0];
    const ValueType type = ValueType::blocked(builder.type(inputs[0]).shape);
    const std::uint32_t threshold = kernels::dropout_threshold(spec_.rate);
    const auto scale = static_cast<float>(1 / (1 - spec_.rate));
    const std::int64_t blocks = channel_blocks(type),
                       plane = type.picture[0] * type.picture[1] * kChannelBlock;
    const auto run = [=, key = random_key(builder, spec_.seed)](const Task& task) {
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        const kernels::PhiloxStream stream = stream_of(key, Purpose::kDropout, task, n);
        for (std::int64_t block = 0; block < blocks; ++block) {
          std::array<std::uint32_t, kChannelBlock> words;
          kernels::table().noise.words(stream, block * kChannelBlock, (block + 1) * kChannelBlock,
                                       words.data());
          const float* x = task.inputs[0].at(n) + block * plane;
          float* y = task.outputs[0].at(n) + block * plane;
          for (std::int64_t i = 0; i < plane; ++i) {
            const bool keep = words[static_cast<std::size_t>(i % kChannelBlock)] >= threshold;
            y[i] = keep ? x[i] * scale : 0.0f;
          }
        }
      }
    };
    return builder.emit1(make_mask_op("spatial_dropout", type, run), {inputs[0]});
  }

 private:
  SpatialDropout2D spec_;
};

class GaussianNoiseImpl final : public LayerImpl {
 public:
  explicit GaussianNoiseImpl(const GaussianNoise& spec) : spec_(spec) {
    if (!(spec.stddev >= 0))
      throw ConfigError(
          fmt::format("[GaussianNoise] stddev; expected at least 0; got {}", spec.stddev));
  }
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1) throw ConfigError("expected one input");
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    if (!builder.training() || spec_.stddev == 0) return inputs[0];
    const ValueType& type = builder.type(inputs[0]);
    // Lanes past the last channel stay zero: the last channel block runs on its own.
    const bool padded = type.layout == Layout::kBlocked && type.picture[2] % kChannelBlock != 0;
    const std::int64_t tail = padded ? type.picture[0] * type.picture[1] * kChannelBlock : 0;
    const auto count = static_cast<std::int64_t>(type.stored_count());
    const int live = padded ? static_cast<int>(type.picture[2] % kChannelBlock) : 8;
    const auto run = [=, stddev = static_cast<float>(spec_.stddev),
                      key = random_key(builder, spec_.seed)](const Task& task) {
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        kernels::NoiseArgs args;
        args.stream = stream_of(key, Purpose::kNoise, task, n);
        args.stddev = stddev;
        args.src = task.inputs[0].at(n);
        args.dst = task.outputs[0].at(n);
        args.end = count - tail;
        kernels::table().noise.gaussian(args);
        if (tail == 0) continue;
        args.begin = count - tail;
        args.end = count;
        args.live_lanes = live;
        kernels::table().noise.gaussian(args);
      }
    };
    return builder.emit1(make_sample_op({.kind = "gaussian_noise",
                                         .outputs = {type},
                                         .in_place_input = 0,
                                         .flops_per_element = 20,
                                         .run = run,
                                         .gradient =
                                             [](GradientBuilder& b) {
                                               b.set_input_gradient(0, b.output_gradient(0));
                                             }}),
                         {inputs[0]});
  }

 private:
  GaussianNoise spec_;
};

}  // namespace

LayerPtr make_layer(const Dropout& spec) {
  return std::make_shared<DropoutImpl>(spec);
}
LayerPtr make_layer(const SpatialDropout2D& spec) {
  return std::make_shared<SpatialDropout2DImpl>(spec);
}
LayerPtr make_layer(const GaussianNoise& spec) {
  return std::make_shared<GaussianNoiseImpl>(spec);
}

}  // namespace surefit
