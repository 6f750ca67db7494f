// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

LayerCase re_lu(std::string name, Shape input, const ReLU& spec) {
  const Reference reference = [spec](const std::vector<Array>& inputs, const Parameters&) {
    return map(inputs[0], [&](double x) {
      if (x < 0) return spec.negative_slope * x;
      return spec.max_value ? std::min(x, *spec.max_value) : x;
    });
  };
  return {
      .name = std::move(name), .layer = spec, .inputs = {std::move(input)}, .reference = reference};
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list = {
      re_lu("one_channel", {5, 3, 1}, {}), re_lu("rgb", {3, 4, 3}, {.negative_slope = 0.3}),
      re_lu("thirteen", {3, 3, 13}, {}), re_lu("six", {2, 3, 8}, {.max_value = 6}),
      re_lu("row", {13}, {.negative_slope = 0.01})};
  list[0].invalid = {
      {"negative_slope", -0.5}, {"threshold", 0.5}, {"max_value", 5.0}, {"max_value", -1.0}};
  return list;
}

const bool kAdded = add_conformance("ReLU", cases);

}  // namespace
}  // namespace surefit::conformance
