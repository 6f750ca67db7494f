// SPDX-License-Identifier: Apache-2.0
// ReLU, LeakyReLU and ELU.
#include <cmath>
#include <fmt/format.h>

#include "nn/layers/common.hpp"
#include "nn/ops/activation.hpp"
#include "nn/ops/kernel.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

class ActivationLayer final : public LayerImpl {
 public:
  explicit ActivationLayer(ActivationSpec spec) : spec_(spec) {}
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1) throw ConfigError("expected one input");
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    return builder.emit1(std::make_shared<ActivationOp>(spec_), {inputs[0]});
  }

 private:
  ActivationSpec spec_;
};

// Keras's ReLU in full: max_value from there on, x from the threshold on, slope (x - threshold)
// below. Padding lanes would not stay zero, so it runs on plain values.
struct Bent {
  float most, slope, threshold;
  float value(float x) const {
    return x >= most ? most : x >= threshold ? x : slope * (x - threshold);
  }
  float gradient(float x, float dy) const {
    return x >= most ? 0.0f : x >= threshold ? dy : slope * dy;
  }
};

class BentLayer final : public LayerImpl {
 public:
  explicit BentLayer(const Bent& bent) : bent_(bent) {}
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1) throw ConfigError("expected one input");
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    ValueType type;
    type.shape = builder.type(inputs[0]).shape;
    const std::size_t count = type.shape.count();
    const auto run = [bent = bent_, count](const Task& task) {
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        const float* x = task.inputs[0].at(n);
        float* y = task.outputs[0].at(n);
        for (std::size_t i = 0; i < count; ++i) y[i] = bent.value(x[i]);
      }
    };
    const auto backward = [bent = bent_, count](const Task& task) {
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        const float* x = task.inputs[0].at(n);
        const float* dy = task.inputs[1].at(n);
        float* dx = task.outputs[0].at(n);
        for (std::size_t i = 0; i < count; ++i) dx[i] = bent.gradient(x[i], dy[i]);
      }
    };
    const auto gradient = [type, backward](GradientBuilder& b) {
      b.set_input_gradient(0, b.emit1(make_sample_op({.kind = "relu_backward",
                                                      .outputs = {type},
                                                      .layout = Layout::kPlain,
                                                      .run = backward}),
                                      {b.input(0), b.output_gradient(0)}));
    };
    return builder.emit1(make_sample_op({.kind = "relu",
                                         .outputs = {type},
                                         .layout = Layout::kPlain,
                                         .run = run,
                                         .gradient = gradient}),
                         {inputs[0]});
  }

 private:
  Bent bent_;
};

}  // namespace

LayerPtr make_layer(const ReLU& spec) {
  using kernels::Activation;
  if (!(spec.negative_slope >= 0)) throw ConfigError("[ReLU] negative_slope must not be negative");
  if (!(spec.threshold >= 0)) throw ConfigError("[ReLU] threshold must not be negative");
  if (spec.max_value && !(*spec.max_value >= 0))
    throw ConfigError("[ReLU] max_value must not be negative");
  const auto slope = static_cast<float>(spec.negative_slope);
  if (spec.threshold == 0 && !spec.max_value) {
    return std::make_shared<ActivationLayer>(slope == 0
                                                 ? ActivationSpec{Activation::kRelu}
                                                 : ActivationSpec{Activation::kLeakyRelu, slope});
  }
  if (spec.threshold == 0 && slope == 0 && spec.max_value == 6.0)
    return std::make_shared<ActivationLayer>(ActivationSpec{Activation::kRelu6});
  return std::make_shared<BentLayer>(Bent{static_cast<float>(spec.max_value.value_or(INFINITY)),
                                          slope, static_cast<float>(spec.threshold)});
}

LayerPtr make_layer(const LeakyReLU& spec) {
  if (!(spec.negative_slope >= 0)) {
    throw ConfigError(fmt::format("[LeakyReLU] negative_slope; expected at least 0; got {}",
                                  spec.negative_slope));
  }
  return std::make_shared<ActivationLayer>(
      ActivationSpec{kernels::Activation::kLeakyRelu, static_cast<float>(spec.negative_slope)});
}

LayerPtr make_layer(const ELU& spec) {
  if (!(spec.alpha > 0))
    throw ConfigError(fmt::format("[ELU] alpha; expected above 0; got {}", spec.alpha));
  return std::make_shared<ActivationLayer>(
      ActivationSpec{kernels::Activation::kElu, static_cast<float>(spec.alpha)});
}

}  // namespace surefit
