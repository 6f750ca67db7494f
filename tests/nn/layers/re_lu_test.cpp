// SPDX-License-Identifier: Apache-2.0
// ReLU, LeakyReLU, ELU and PReLU.
#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

template <typename Spec, typename Function>
LayerCase pointwise(std::string name, Shape input, const Spec& spec, const Function& function) {
  const Reference reference = [function](const std::vector<Array>& inputs, const Parameters&) {
    return map(inputs[0], function);
  };
  return {
      .name = std::move(name), .layer = spec, .inputs = {std::move(input)}, .reference = reference};
}

LayerCase re_lu(std::string name, Shape input, const ReLU& spec) {
  return pointwise(std::move(name), std::move(input), spec, [spec](double x) {
    if (spec.max_value && x >= *spec.max_value) return *spec.max_value;
    return x >= spec.threshold ? x : spec.negative_slope * (x - spec.threshold);
  });
}

std::vector<LayerCase> relu_cases() {
  std::vector<LayerCase> list = {
      re_lu("one_channel", {5, 3, 1}, {}),
      re_lu("rgb", {3, 4, 3}, {.negative_slope = 0.3}),
      re_lu("thirteen", {3, 3, 13}, {}),
      re_lu("six", {2, 3, 8}, {.max_value = 6}),
      re_lu("row", {13}, {.negative_slope = 0.01}),
      re_lu("capped_low", {3, 3, 13}, {.max_value = 0.5}),
      re_lu("threshold", {3, 2, 5}, {.max_value = 0.75, .negative_slope = 0.1, .threshold = 0.25}),
      re_lu("threshold_row", {40}, {.threshold = 0.5})};
  list[0].invalid = {{"negative_slope", -0.5}, {"threshold", -0.5}, {"max_value", -1.0}};
  return list;
}

std::vector<LayerCase> leaky_cases() {
  const auto leaky = [](std::string name, Shape input, double slope) {
    return pointwise(std::move(name), std::move(input), LeakyReLU{.negative_slope = slope},
                     [slope](double x) { return x > 0 ? x : slope * x; });
  };
  std::vector<LayerCase> list = {leaky("usual", {3, 3, 13}, 0.3), leaky("row", {9}, 0.01)};
  list[0].invalid = {{"negative_slope", -0.5}, {"negative_slope", std::string("steep")}};
  return list;
}

std::vector<LayerCase> elu_cases() {
  const auto elu = [](std::string name, Shape input, double alpha) {
    return pointwise(std::move(name), std::move(input), ELU{.alpha = alpha},
                     [alpha](double x) { return x > 0 ? x : alpha * std::expm1(x); });
  };
  std::vector<LayerCase> list = {elu("usual", {3, 3, 13}, 1), elu("row", {9}, 0.5)};
  list[0].invalid = {{"alpha", 0.0}, {"alpha", -1.0}};
  return list;
}

LayerCase p_re_lu(std::string name, Shape input, const PReLU& spec) {
  const Reference reference = [spec](const std::vector<Array>& inputs,
                                     const Parameters& parameters) {
    Array y = inputs[0];
    const Array& alpha = parameters.at("alpha");
    const std::size_t count = y.values.size() / static_cast<std::size_t>(y.shape[0]);
    for (std::size_t i = 0; i < y.values.size(); ++i) {
      std::size_t at = 0, step = 1, rest = i % count;
      for (std::size_t axis = alpha.shape.rank(); axis-- > 0;) {
        const auto extent = static_cast<std::size_t>(y.shape[axis + 1]);
        if (alpha.shape[axis] > 1) at += rest % extent * step;
        rest /= extent;
        step *= static_cast<std::size_t>(alpha.shape[axis]);
      }
      if (y.values[i] < 0) y.values[i] *= alpha.values[at];
    }
    return y;
  };
  return {
      .name = std::move(name), .layer = spec, .inputs = {std::move(input)}, .reference = reference};
}

std::vector<LayerCase> prelu_cases() {
  std::vector<LayerCase> list = {
      p_re_lu("each", {3, 2, 5}, {}), p_re_lu("per_channel", {3, 4, 13}, {.shared_axes = {1, 2}}),
      p_re_lu("per_row", {3, 4, 8}, {.shared_axes = {2, 3}}), p_re_lu("row", {9}, {})};
  list[0].invalid = {{"shared_axes", std::int64_t{0}},
                     {"shared_axes", ConfigList{std::int64_t{4}}}};
  return list;
}

const bool kAdded = add_conformance("ReLU", relu_cases) &&
                    add_conformance("LeakyReLU", leaky_cases) &&
                    add_conformance("ELU", elu_cases) && add_conformance("PReLU", prelu_cases);

}  // namespace
}  // namespace surefit::conformance
