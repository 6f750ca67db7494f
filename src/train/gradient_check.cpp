// SPDX-License-Identifier: Apache-2.0
// Derivatives against differences: a scalar made of the outputs with random factors is computed
// twice with one number a little larger and a little smaller.
#include <algorithm>
#include <cmath>

#include "surefit/step.hpp"

#include "base/philox.hpp"
#include "nn/loss.hpp"

namespace surefit {
namespace {

constexpr std::int64_t kSamples = 3;
constexpr std::size_t kMostElements = 100;  // of each tensor, evenly spread
constexpr float kNudge = 1.0f / 128;        // a power of two: x + h - x is h

Tensor random_tensor(const Shape& shape, std::uint64_t seed, std::uint32_t stream, double low,
                     double high) {
  Tensor tensor(shape);
  const Philox noise(seed, Purpose::kTest, stream, 0, 0);
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    const double share = static_cast<double>(noise.word(i)) * 0x1p-32;
    tensor.values<float>()[i] = static_cast<float>(low + (high - low) * share);
  }
  return tensor;
}

// `evaluate` computes the scalar for a changed tensor.
template <typename Evaluate>
void compare(const Tensor& at, const Tensor& analytic, const std::string& name,
             const Evaluate& evaluate, GradientCheck& check) {
  double largest = 1e-12;
  for (const float slope : analytic.values<float>())
    largest = std::max(largest, std::abs(static_cast<double>(slope)));
  const std::size_t stride = std::max<std::size_t>(1, at.count() / kMostElements);
  for (std::size_t i = 0; i < at.count(); i += stride) {
    Tensor changed = at;
    float& element = changed.values<float>()[i];
    const float here = element;
    element = here + kNudge;
    const double up = static_cast<double>(element), above = evaluate(changed);
    element = here - kNudge;
    const double down = static_cast<double>(element), below = evaluate(changed);
    const double numeric = (above - below) / (up - down);
    const double error =
        std::abs(numeric - static_cast<double>(analytic.values<float>()[i])) / largest;
    if (error <= check.largest_error) continue;
    check.largest_error = error;
    check.worst = name;
  }
}

double run(Step& step, const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> list;
  for (const Tensor& tensor : tensors) list.push_back(&tensor);
  return step.run(list);
}

}  // namespace

GradientCheck check_gradients(const Layer& layer, const std::vector<Shape>& inputs,
                              std::uint64_t seed) {
  std::vector<Symbol> symbols;
  for (const Shape& shape : inputs) symbols.push_back(Input(shape));
  const Symbol output = layer(symbols);
  Model model(symbols, {output});
  model.initialize(seed);
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    tensors.push_back(
        random_tensor(inputs[i].prepend(kSamples), seed, static_cast<std::uint32_t>(i), -1, 1));
  tensors.push_back(random_tensor(output.shape().prepend(kSamples), seed, 1000, -1, 1));
  Step step({.batch_size = kSamples, .threads = 1}, [&](Tape& tape) {
    std::vector<Traced> traced;
    for (const Shape& shape : inputs) traced.push_back(tape.input(shape));
    const Traced factors = tape.input(output.shape());
    const LossValue loss = tape.mean(tape.call(model, traced)[0] * factors);
    for (std::size_t i = 0; i < traced.size(); ++i)
      tape.output("input " + std::to_string(i), tape.gradient(loss, traced[i]));
    if (!model.parameter_names().empty()) tape.output("parameter", tape.gradient(loss, model));
    return loss;
  });
  run(step, tensors);
  GradientCheck check;
  std::vector<Tensor> analytic;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    analytic.push_back(step.tensor("input " + std::to_string(i)));
  std::vector<std::pair<std::string, Tensor>> parameters;
  for (const std::string& name : model.parameter_names())
    parameters.emplace_back(name, step.tensor("parameter/" + name));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    compare(
        tensors[i], analytic[i], "input " + std::to_string(i),
        [&](const Tensor& changed) {
          std::vector<Tensor> all = tensors;
          all[i] = changed;
          return run(step, all);
        },
        check);
  }
  for (const auto& [name, slopes] : parameters) {
    const Tensor here = model.parameter(name);
    compare(
        here, slopes, "parameter '" + name + "'",
        [&, &parameter = name](const Tensor& changed) {
          model.set_parameter(parameter, changed);
          return run(step, tensors);
        },
        check);
    model.set_parameter(name, here);
  }
  return check;
}

GradientCheck check_gradients(const Loss& loss, const Shape& prediction, std::uint64_t seed) {
  const LabelSpec spec = loss.impl().labels(prediction);
  Tensor labels = random_tensor(spec.shape.prepend(kSamples), seed, 1, 0.1, 0.9);
  if (spec.dtype == DType::kInt32) {
    for (float& label : labels.values<float>())
      label = std::floor(label * static_cast<float>(std::max<std::int64_t>(1, spec.classes)));
  }
  const Tensor predictions = random_tensor(prediction.prepend(kSamples), seed, 0, 0.1, 0.9);
  Step step({.batch_size = kSamples, .threads = 1}, [&](Tape& tape) {
    const Traced traced = tape.input(prediction), truth = tape.input(spec.shape, spec.dtype);
    const LossValue value = tape.loss(loss, truth, traced);
    tape.output("prediction", tape.gradient(value, traced));
    return value;
  });
  step(predictions, labels);
  GradientCheck check;
  compare(
      predictions, step.tensor("prediction"), "prediction",
      [&](const Tensor& changed) { return step(changed, labels); }, check);
  return check;
}

}  // namespace surefit
