// SPDX-License-Identifier: Apache-2.0
// Rescaling and Normalization, on plain values: they stand at the entry of a network.
#include <cmath>
#include <fmt/format.h>

#include "nn/layers/common.hpp"
#include "nn/ops/kernel.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

// Per element i of channel c: a line with slope(c) and offset(c), both handed out by `line(task,
// c)`.
struct Line {
  float slope, offset;
};
template <typename LineOf>
std::shared_ptr<const Op> make_line_op(std::string_view kind, const Shape& shape,
                                       std::int64_t channels, const LineOf& line) {
  ValueType type;
  type.shape = shape;
  const auto pass = [count = static_cast<std::int64_t>(shape.count()), channels, line](
                        const Task& task, bool backward) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const Line own = line(task, c);
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        const float* x = task.inputs[0].at(n);
        float* y = task.outputs[0].at(n);
        for (std::int64_t i = c; i < count; i += channels)
          y[i] = x[i] * own.slope + (backward ? 0.0f : own.offset);
      }
    }
  };
  const auto gradient = [type, pass](GradientBuilder& builder) {
    std::vector<ValueId> inputs = {builder.output_gradient(0)};
    for (std::size_t i = 1; i < builder.input_count(); ++i) inputs.push_back(builder.input(i));
    builder.set_input_gradient(
        0, builder.emit1(make_sample_op({.kind = "rescaling_backward",
                                         .outputs = {type},
                                         .layout = Layout::kPlain,
                                         .run = [pass](const Task& task) { pass(task, true); }}),
                         std::move(inputs)));
  };
  return make_sample_op({.kind = kind,
                         .outputs = {type},
                         .layout = Layout::kPlain,
                         .flops_per_element = 2,
                         .run = [pass](const Task& task) { pass(task, false); },
                         .gradient = gradient});
}

class RescalingImpl final : public LayerImpl {
 public:
  explicit RescalingImpl(const Rescaling& spec) {
    const std::vector<double>&scale = spec.scale.values, &offset = spec.offset.values;
    if (scale.empty() || offset.empty() ||
        (scale.size() != offset.size() && scale.size() > 1 && offset.size() > 1))
      throw ConfigError(
          "[Rescaling] scale and offset; expected one number or one for each channel");
    for (std::size_t c = 0; c < std::max(scale.size(), offset.size()); ++c) {
      const Line line = {static_cast<float>(scale[scale.size() > 1 ? c : 0]),
                         static_cast<float>(offset[offset.size() > 1 ? c : 0])};
      if (!std::isfinite(line.slope) || !std::isfinite(line.offset))
        throw ConfigError("[Rescaling] scale and offset; expected finite numbers");
      lines_.push_back(line);
    }
  }
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1) throw ConfigError("expected one input");
    const Shape& shape = inputs[0];
    const auto given = static_cast<std::int64_t>(lines_.size());
    if (given > 1 && (shape.rank() == 0 || shape[shape.rank() - 1] != given)) {
      throw ConfigError(
          fmt::format("scale and offset; expected one number or one for each channel "
                      "of {}; got {}",
                      shape.to_string(), given));
    }
    return shape;
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const auto line = [lines = lines_](const Task&, std::int64_t c) {
      return lines[static_cast<std::size_t>(c)];
    };
    return builder.emit1(make_line_op("rescaling", builder.type(inputs[0]).shape,
                                      static_cast<std::int64_t>(lines_.size()), line),
                         {inputs[0]});
  }

 private:
  std::vector<Line> lines_;  // one, or one for each channel
};

// Keras keeps the deviation above 1e-7.
Line normalising(double mean, double variance, bool invert) {
  const double deviation = std::max(std::sqrt(variance), 1e-7);
  if (invert) return {static_cast<float>(deviation), static_cast<float>(mean)};
  return {static_cast<float>(1 / deviation), static_cast<float>(-mean / deviation)};
}

class NormalizationImpl final : public LayerImpl {
 public:
  explicit NormalizationImpl(const Normalization& spec) : spec_(spec) {
    if (spec.mean.values.size() != spec.variance.values.size())
      throw ConfigError("[Normalization] mean and variance; expected both or none, of one length");
    for (const double variance : spec.variance.values) {
      if (!(variance >= 0)) throw ConfigError("[Normalization] variance; expected at least 0");
    }
  }
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() == 0) throw ConfigError("expected one input");
    const auto rank = static_cast<std::int64_t>(inputs[0].rank());
    const auto& axes = spec_.axis.values;
    if (axes.size() > 1 || (axes.size() == 1 && axes[0] != -1 && axes[0] != rank)) {
      throw ConfigError(fmt::format("axis; expected the last, -1, or null; got {}",
                                    to_config(spec_.axis).to_string()));
    }
    const std::size_t given = spec_.mean.values.size();
    if (given > 1 && given != static_cast<std::size_t>(channels_of(inputs[0])))
      throw ConfigError(
          fmt::format("mean; expected one number or {}; got {}", channels_of(inputs[0]), given));
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const Shape shape = builder.type(inputs[0]).shape;
    const bool invert = spec_.invert;
    if (!spec_.mean.values.empty()) {
      std::vector<Line> lines;
      for (std::size_t c = 0; c < spec_.mean.values.size(); ++c)
        lines.push_back(normalising(spec_.mean.values[c], spec_.variance.values[c], invert));
      const auto channels = static_cast<std::int64_t>(lines.size());
      return builder.emit1(make_line_op("normalization", shape, channels,
                                        [lines](const Task&, std::int64_t c) {
                                          return lines[static_cast<std::size_t>(c)];
                                        }),
                           {inputs[0]});
    }
    const std::int64_t channels = channels_of(shape);
    const auto parameter = [&](const char* name, const char* initializer) {
      return builder.parameter({.name = name,
                                .shape = Shape{channels},
                                .initializer = {initializer},
                                .trainable = false});
    };
    const ValueId mean = parameter("mean", "Zeros"), variance = parameter("variance", "Ones");
    const auto line = [invert](const Task& task, std::int64_t c) {
      return normalising(static_cast<double>(task.inputs[1].at()[c]),
                         static_cast<double>(task.inputs[2].at()[c]), invert);
    };
    return builder.emit1(make_line_op("normalization", shape, channels, line),
                         {inputs[0], mean, variance});
  }

 private:
  std::int64_t channels_of(const Shape& shape) const {
    return spec_.axis.values.empty() ? 1 : shape[shape.rank() - 1];
  }
  Normalization spec_;
};

}  // namespace

LayerPtr make_layer(const Rescaling& spec) {
  return std::make_shared<RescalingImpl>(spec);
}
LayerPtr make_layer(const Normalization& spec) {
  return std::make_shared<NormalizationImpl>(spec);
}

}  // namespace surefit
