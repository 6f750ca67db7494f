// SPDX-License-Identifier: Apache-2.0
// Rescaling and Normalization.
#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

LayerCase rescale(std::string name, Shape input, const Rescaling& spec) {
  return {.name = std::move(name),
          .layer = spec,
          .inputs = {std::move(input)},
          .reference = [spec](const std::vector<Array>& inputs, const Parameters&) {
            return map(inputs[0],
                       [&](double x) { return x * spec.scale.values[0] + spec.offset.values[0]; });
          }};
}

std::vector<LayerCase> rescaling_cases() {
  std::vector<LayerCase> list = {rescale("bytes", {3, 2, 3}, {.scale = 1.0 / 127.5, .offset = -1}),
                                 rescale("thirteen", {2, 2, 13}, {.scale = 3, .offset = 0.25}),
                                 rescale("row", {5}, {.scale = 0.5})};
  list[0].invalid = {{"scale", std::string("much")}, {"offset", INFINITY}};
  return list;
}

LayerCase normalise(std::string name, Shape input, const Normalization& spec) {
  const Reference reference = [spec](const std::vector<Array>& inputs,
                                     const Parameters& parameters) {
    const std::vector<double>& mean =
        spec.mean.values.empty() ? parameters.at("mean").values : spec.mean.values;
    const std::vector<double>& variance =
        spec.variance.values.empty() ? parameters.at("variance").values : spec.variance.values;
    Array y = inputs[0];
    for (std::size_t i = 0; i < y.values.size(); ++i) {
      const double m = mean[i % mean.size()], s = std::sqrt(variance[i % mean.size()]);
      y.values[i] = spec.invert ? y.values[i] * s + m : (y.values[i] - m) / s;
    }
    return y;
  };
  return {.name = std::move(name),
          .layer = spec,
          .inputs = {std::move(input)},
          .reference = reference,
          .positive = {"variance"}};
}

std::vector<LayerCase> normalization_cases() {
  std::vector<LayerCase> list = {
      normalise("given", {3, 2, 3}, {.mean = {0.5, 0.4, 0.3}, .variance = {0.04, 0.09, 0.16}}),
      normalise("one_for_all", {2, 2, 13}, {.axis = {}, .mean = {0.5}, .variance = {4}}),
      normalise("adapted", {3, 2, 5}, {}),
      normalise("adapted_row", {8}, {}),
      normalise("inverted", {3, 2, 2}, {.mean = {0.5, 0.4}, .variance = {0.25, 1}, .invert = true}),
  };
  list[0].invalid = {{"axis", std::int64_t{1}},
                     {"mean", ConfigList{0.5, 0.5}},
                     {"mean", std::monostate{}},
                     {"variance", ConfigList{1.0, -1.0, 1.0}}};
  return list;
}

const bool kAdded = add_conformance("Rescaling", rescaling_cases) &&
                    add_conformance("Normalization", normalization_cases);

}  // namespace
}  // namespace surefit::conformance
