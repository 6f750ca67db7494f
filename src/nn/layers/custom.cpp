// SPDX-License-Identifier: Apache-2.0
// Layers that are defined in a user's program.
#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "nn/layer.hpp"
#include "nn/ops/kernel.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

// Spans are handed over in arrays on the stack: a step allocates nothing.
constexpr std::size_t kMostOperands = 8;
using Reads = std::array<std::span<const float>, kMostOperands>;
using Writes = std::array<std::span<float>, kMostOperands>;

// Inputs of every node of the layer: those of the layer, its parameters, and behind them the
// gradient of the output.
struct Operands {
  std::vector<std::size_t> inputs, parameters;  // floats in each
  std::size_t output = 0;

  // Sample n of the task, with views into the caller's arrays.
  LayerSample sample(const Task& task, std::int64_t n, Reads& reads_inputs,
                     Reads& reads_parameters) const {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      reads_inputs[i] = {task.inputs[i].at(n), inputs[i]};
    for (std::size_t i = 0; i < parameters.size(); ++i)
      reads_parameters[i] = {task.inputs[inputs.size() + i].at(), parameters[i]};
    return {.inputs = std::span(reads_inputs).first(inputs.size()),
            .parameters = std::span(reads_parameters).first(parameters.size())};
  }
  const float* output_gradient(const Task& task, std::int64_t n) const {
    return task.inputs[inputs.size() + parameters.size()].at(n);
  }
};

// The outputs of a backward node, in order, for those operands whose gradient is wanted.
std::vector<ValueType> wanted_types(const std::vector<std::size_t>& counts,
                                    const std::vector<bool>& wanted, bool batched) {
  std::vector<ValueType> types;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (wanted[i])
      types.push_back(vector_type(static_cast<std::int64_t>(counts[i]), DType::kFloat32, batched));
  }
  return types;
}

void place_outputs(const Task& task, std::int64_t n, const std::vector<std::size_t>& counts,
                   const std::vector<bool>& wanted, Writes& writes) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    writes[i] = {};
    if (wanted[i]) writes[i] = {task.outputs[next++].at(n), counts[i]};
  }
}

std::shared_ptr<const Op> input_gradient_op(std::shared_ptr<const CustomLayer> layer,
                                            const Operands& operands,
                                            const std::vector<bool>& wanted,
                                            std::vector<ValueType> types) {
  const auto run = [=](const Task& task) {
    Reads inputs, parameters;
    Writes writes;
    for (std::int64_t n = task.begin; n < task.end; ++n) {
      LayerSample sample = operands.sample(task, n, inputs, parameters);
      sample.output_gradient = {operands.output_gradient(task, n), operands.output};
      place_outputs(task, n, operands.inputs, wanted, writes);
      sample.input_gradients = std::span<const std::span<float>>(writes).first(wanted.size());
      layer->input_gradient(sample);
    }
  };
  return make_sample_op({.kind = "custom_backward",
                         .outputs = std::move(types),
                         .layout = Layout::kPlain,
                         .flops_per_element = 10,
                         .run = run});
}

std::shared_ptr<const Op> parameter_gradient_op(std::shared_ptr<const CustomLayer> layer,
                                                const Operands& operands,
                                                const std::vector<bool>& wanted) {
  const auto run = [=](const Task& task) {
    Reads inputs, parameters;
    Writes writes;
    place_outputs(task, 0, operands.parameters, wanted, writes);
    if (task.begin == 0) {
      for (const std::span<float> sum : std::span(writes).first(wanted.size()))
        std::fill(sum.begin(), sum.end(), 0.0f);
    }
    for (std::int64_t n = task.begin; n < task.end; ++n) {
      LayerSample sample = operands.sample(task, n, inputs, parameters);
      sample.output_gradient = {operands.output_gradient(task, n), operands.output};
      sample.parameter_gradients = std::span<const std::span<float>>(writes).first(wanted.size());
      layer->parameter_gradient(sample);
    }
  };
  return make_reduction_op({.kind = "custom_backward_parameters",
                            .outputs = wanted_types(operands.parameters, wanted, false),
                            .layout = Layout::kPlain,
                            .flops_per_sample = static_cast<double>(operands.output) * 10,
                            .run = run});
}

std::shared_ptr<const Op> forward_op(std::shared_ptr<const CustomLayer> layer,
                                     std::string_view kind, const Operands& operands,
                                     const std::vector<ValueType>& input_types,
                                     const ValueType& output) {
  const auto run = [=](const Task& task) {
    Reads inputs, parameters;
    for (std::int64_t n = task.begin; n < task.end; ++n) {
      LayerSample sample = operands.sample(task, n, inputs, parameters);
      sample.output = {task.outputs[0].at(n), operands.output};
      layer->forward(sample);
    }
  };
  const auto gradient = [=](GradientBuilder& builder) {
    const std::size_t inputs = operands.inputs.size(), parameters = operands.parameters.size();
    std::vector<ValueId> reads;
    for (std::size_t i = 0; i < inputs + parameters; ++i) reads.push_back(builder.input(i));
    reads.push_back(builder.output_gradient(0));
    const auto wanted = [&](std::size_t first, std::size_t count) {
      std::vector<bool> list(count);
      for (std::size_t i = 0; i < count; ++i) list[i] = builder.wants(first + i);
      return list;
    };
    const auto state = [&](std::size_t first, const std::vector<bool>& list,
                           const std::vector<ValueId>& gradients) {
      std::size_t next = 0;
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (list[i]) builder.set_input_gradient(first + i, gradients[next++]);
      }
    };
    const auto any = [](const std::vector<bool>& list) {
      return std::find(list.begin(), list.end(), true) != list.end();
    };
    if (const auto list = wanted(inputs, parameters); any(list)) {
      state(
          inputs, list,
          builder.emit(parameter_gradient_op(layer, operands, list), reads, Category::kGradients));
    }
    if (const auto list = wanted(0, inputs); any(list)) {
      std::vector<ValueType> types;
      for (std::size_t i = 0; i < inputs; ++i) {
        if (list[i]) types.push_back(input_types[i]);
      }
      state(0, list,
            builder.emit(input_gradient_op(layer, operands, list, std::move(types)), reads));
    }
  };
  return make_sample_op({.kind = kind,
                         .outputs = {output},
                         .layout = Layout::kPlain,
                         .flops_per_element = 10,
                         .run = run,
                         .gradient = gradient});
}

class CustomLayerImpl final : public LayerImpl {
 public:
  CustomLayerImpl(std::shared_ptr<const CustomLayer> layer, std::string_view kind)
      : layer_(std::move(layer)), kind_(kind) {}

  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.empty() || inputs.size() > kMostOperands)
      throw ConfigError(
          fmt::format("expected 1 to {} inputs; got {}", kMostOperands, inputs.size()));
    if (layer_->parameters(inputs).size() > kMostOperands)
      throw ConfigError(fmt::format("expected at most {} parameters", kMostOperands));
    return layer_->output_shape(inputs);
  }

  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    std::vector<Shape> shapes;
    std::vector<ValueType> input_types;
    std::vector<ValueId> reads(inputs.begin(), inputs.end());
    Operands operands;
    for (const ValueId id : inputs) {
      ValueType type;
      type.shape = builder.type(id).shape;
      shapes.push_back(type.shape);
      operands.inputs.push_back(type.stored_count());
      input_types.push_back(type);
    }
    ValueType output;
    output.shape = layer_->output_shape(shapes);
    operands.output = output.stored_count();
    for (const LayerParameter& parameter : layer_->parameters(shapes)) {
      reads.push_back(builder.parameter({.name = parameter.name,
                                         .shape = parameter.shape,
                                         .initializer = parameter.initializer,
                                         .trainable = parameter.trainable}));
      operands.parameters.push_back(parameter.shape.count());
    }
    return builder.emit1(forward_op(layer_, kind_, operands, input_types, output), reads);
  }

 private:
  std::shared_ptr<const CustomLayer> layer_;
  std::string_view kind_;
};

}  // namespace

LayerPtr make_custom_layer(std::shared_ptr<const CustomLayer> layer, std::string_view kind) {
  return std::make_shared<CustomLayerImpl>(std::move(layer), kind);
}

}  // namespace surefit
