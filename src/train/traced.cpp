// SPDX-License-Identifier: Apache-2.0
// What users write in a step: arithmetic of values, losses and gradients, and the verbs of the
// tape.
#include <cmath>

#include "base/check.hpp"
#include "nn/ops/arithmetic.hpp"
#include "nn/ops/merge.hpp"
#include "optim/gradient_ops.hpp"
#include "train/tape.hpp"

namespace surefit {
namespace {

void require_finite(double number, const char* what) {
  if (!std::isfinite(number))
    throw ConfigError(fmt::format("[tape] {}; expected a finite number; got {}", what, number));
}

Traced merge(MergeKind kind, const Traced& a, const Traced& b) {
  const std::vector<Shape> shapes = {a.shape(), b.shape()};
  if (!broadcast_shape(shapes)) {
    throw ConfigError(fmt::format("[tape] shapes {} and {} do not fit together",
                                  shapes[0].to_string(), shapes[1].to_string()));
  }
  return a.tape().add_node(make_merge_op(kind, shapes), {a, b});
}

}  // namespace

Shape Traced::shape() const {
  return tape_->type(*this).shape;
}
Traced operator+(const Traced& a, const Traced& b) {
  return merge(MergeKind::kAdd, a, b);
}
Traced operator-(const Traced& a, const Traced& b) {
  return merge(MergeKind::kSubtract, a, b);
}
Traced operator*(const Traced& a, const Traced& b) {
  return merge(MergeKind::kMultiply, a, b);
}
Traced map(const Traced& value, std::function<float(float)> function,
           std::function<float(float)> slope) {
  return value.tape().add_node(
      make_map_op(value.tape().type(value), std::move(function), std::move(slope)), {value});
}
Traced operator*(const Traced& a, double factor) {
  require_finite(factor, "factor");
  const auto by = static_cast<float>(factor);
  return map(
      a, [by](float x) { return x * by; }, [by](float) { return by; });
}
Traced operator+(const Traced& a, double number) {
  require_finite(number, "number");
  const auto more = static_cast<float>(number);
  return map(
      a, [more](float x) { return x + more; }, [](float) { return 1.0f; });
}
Traced square(const Traced& value) {
  return map(
      value, [](float x) { return x * x; }, [](float x) { return 2 * x; });
}
Traced exp(const Traced& value) {
  return map(
      value, [](float x) { return std::exp(x); }, [](float x) { return std::exp(x); });
}
Traced log(const Traced& value) {
  return map(
      value, [](float x) { return std::log(x); }, [](float x) { return 1 / x; });
}
Traced abs(const Traced& value) {
  return map(
      value, [](float x) { return std::abs(x); },
      [](float x) { return x > 0   ? 1.0f
                           : x < 0 ? -1.0f
                                   : 0.0f; });
}

LossValue operator+(const LossValue& a, const LossValue& b) {
  LossValue sum = a;
  sum.terms_.insert(sum.terms_.end(), b.terms_.begin(), b.terms_.end());
  return sum;
}
LossValue operator*(const LossValue& a, double factor) {
  require_finite(factor, "factor of a loss");
  LossValue product = a;
  for (LossValue::Term& term : product.terms_) term.factor *= factor;
  return product;
}

Gradients operator+(const Gradients& a, const Gradients& b) {
  return a.state()->tape->sum(a, b);
}
Gradients operator*(const Gradients& gradients, double factor) {
  require_finite(factor, "factor of gradients");
  return gradients.state()->tape->changed(
      gradients, [factor](TapeImpl& tape, std::vector<ParameterGradient>& entries) {
        for (ParameterGradient& each : entries)
          each.gradient = tape.graph().add1(make_scale_gradient_op(factor), {each.gradient},
                                            "gradients", Phase::kUpdate, Category::kGradients);
      });
}
Gradients clip_by_value(const Gradients& gradients, double limit) {
  if (!(limit > 0)) throw ConfigError("[clip_by_value] expected a limit above 0");
  return gradients.state()->tape->changed(
      gradients, [limit](TapeImpl& tape, std::vector<ParameterGradient>& entries) {
        for (ParameterGradient& each : entries)
          each.gradient = tape.graph().add1(make_clip_value_op(limit), {each.gradient}, "gradients",
                                            Phase::kUpdate, Category::kGradients);
      });
}

namespace {

void multiply(Graph& graph, ParameterGradient& each, ValueId factor) {
  each.gradient = graph.add1(make_multiply_gradient_op(), {each.gradient, factor}, "gradients",
                             Phase::kUpdate, Category::kGradients);
}

}  // namespace

Gradients clip_by_norm(const Gradients& gradients, double limit) {
  if (!(limit > 0)) throw ConfigError("[clip_by_norm] expected a limit above 0");
  const Network& network = gradients.state()->model->network;
  return gradients.state()->tape->changed(gradients, [limit, &network](
                                                         TapeImpl& tape,
                                                         std::vector<ParameterGradient>& entries) {
    for (ParameterGradient& each : entries)
      multiply(tape.graph(), each, append_clip_factor(tape.graph(), network, {&each, 1}, limit));
  });
}
Gradients clip_by_global_norm(const Gradients& gradients, double limit) {
  if (!(limit > 0)) throw ConfigError("[clip_by_global_norm] expected a limit above 0");
  const Network& network = gradients.state()->model->network;
  return gradients.state()->tape->changed(
      gradients, [limit, &network](TapeImpl& tape, std::vector<ParameterGradient>& entries) {
        const ValueId factor = append_clip_factor(tape.graph(), network, entries, limit);
        for (ParameterGradient& each : entries) multiply(tape.graph(), each, factor);
      });
}

Traced Tape::input(const Shape& shape, DType dtype) {
  return impl_.input(shape, dtype);
}
Traced Tape::call(Model& model, const Traced& input, bool training) {
  const std::vector<Traced> outputs = impl_.call(model, {input}, training);
  if (outputs.size() != 1) {
    throw ConfigError(fmt::format(
        "[tape] model '{}' has {} outputs; call it with a list of inputs to get them all",
        model.name(), outputs.size()));
  }
  return outputs[0];
}
std::vector<Traced> Tape::call(Model& model, const std::vector<Traced>& inputs, bool training) {
  return impl_.call(model, inputs, training);
}
LossValue Tape::loss(const Loss& loss, const Traced& labels, const Traced& predictions) {
  return impl_.loss(loss, labels, predictions);
}
LossValue Tape::mean(const Traced& value) {
  return impl_.mean(value);
}
Gradients Tape::gradient(const LossValue& loss, Model& model) {
  return impl_.gradient(loss, model);
}
Traced Tape::gradient(const LossValue& loss, const Traced& value) {
  return impl_.gradient(loss, value);
}
void Tape::apply(Model& model, const Gradients& gradients) {
  impl_.apply(model, gradients);
}
void Tape::accumulate(GradientSum& sum, const Gradients& gradients) {
  impl_.accumulate(sum, gradients);
}
Gradients Tape::take(GradientSum& sum) {
  return impl_.take(sum);
}
void Tape::output(const std::string& name, const LossValue& loss) {
  impl_.output(name, loss);
}
void Tape::output(const std::string& name, const Traced& value) {
  impl_.output(name, value);
}
void Tape::output(const std::string& name, const Gradients& gradients) {
  impl_.output(name, gradients);
}

}  // namespace surefit
