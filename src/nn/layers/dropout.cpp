// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"
#include "base/philox.hpp"
#include "graph/autodiff.hpp"
#include "nn/layers/common.hpp"
#include "nn/ops/kernel.hpp"

namespace surefit {
namespace {

// Forward and backward are the same: multiply by the mask, which is drawn anew each time from
// (seed, layer, step, sample) and never stored.
class DropoutOp final : public Op {
 public:
  DropoutOp(double rate, std::optional<std::uint64_t> seed, std::uint32_t layer)
      : rate_(rate), seed_(seed), layer_(layer) {}
  std::string_view kind() const override { return "dropout"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {inputs[0]};
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.in_place_input = 0;
    traits.flops_per_sample = static_cast<double>(inputs[0].stored_count()) * 20;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    // A word below the threshold drops the element.
    const auto threshold = static_cast<std::uint64_t>(rate_ * 0x1p32);
    const auto scale = static_cast<float>(1 / (1 - rate_));
    return make_kernel("own", [count = inputs[0].stored_count(), threshold, scale, seed = seed_,
                               layer = layer_](const Task& task) {
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        const Philox stream(seed.value_or(task.step->seed), Purpose::kDropout, layer,
                            task.step->step, static_cast<std::uint64_t>(n));
        const float* x = task.inputs[0].at(n);
        float* y = task.outputs[0].at(n);
        for (std::size_t i = 0; i < count; i += 4) {
          const PhiloxBlock words = stream.block(i / 4);
          for (std::size_t lane = 0; lane < std::min<std::size_t>(4, count - i); ++lane) {
            y[i + lane] = words[lane] < threshold ? 0.0f : x[i + lane] * scale;
          }
        }
      }
    });
  }
  void gradient(GradientBuilder& builder) const override {
    builder.set_input_gradient(0, builder.emit1(std::make_shared<DropoutOp>(rate_, seed_, layer_),
                                                {builder.output_gradient(0)}));
  }

 private:
  double rate_;
  std::optional<std::uint64_t> seed_;
  std::uint32_t layer_;
};

class DropoutImpl final : public LayerImpl {
 public:
  explicit DropoutImpl(const Dropout& spec) : spec_(spec) {
    if (!(spec.rate >= 0 && spec.rate < 1)) {
      throw ConfigError(
          fmt::format("[Dropout] rate; expected at least 0 and below 1; got {}", spec.rate));
    }
    if (spec.noise_shape) throw ConfigError("[Dropout] noise_shape is not supported yet");
  }
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1) throw ConfigError("expected one input");
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    if (!builder.training() || spec_.rate == 0) return inputs[0];
    std::optional<std::uint64_t> seed;
    if (spec_.seed) seed = static_cast<std::uint64_t>(*spec_.seed);
    return builder.emit1(std::make_shared<DropoutOp>(spec_.rate, seed, builder.layer_id()),
                         {inputs[0]});
  }

 private:
  Dropout spec_;
};

}  // namespace

LayerPtr make_layer(const Dropout& spec) {
  return std::make_shared<DropoutImpl>(spec);
}

}  // namespace surefit
