// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

LayerCase flatten(std::string name, Shape input) {
  const Reference reference = [](const std::vector<Array>& inputs, const Parameters&) {
    Array y(
        Shape{inputs[0].shape[0], static_cast<std::int64_t>(inputs[0].shape.drop_front().count())});
    y.values = inputs[0].values;  // row-major, channels last: Keras's order
    return y;
  };
  return {.name = std::move(name),
          .layer = Flatten{},
          .inputs = {std::move(input)},
          .reference = reference};
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list = {
      flatten("one_channel", {3, 5, 1}), flatten("rgb", {4, 3, 3}), flatten("eight", {3, 2, 8}),
      flatten("thirteen", {3, 5, 13}),   flatten("row", {7}),       flatten("matrix", {3, 4})};
  list[0].invalid = {{"data_format", std::string("channels_first")}};
  return list;
}

const bool kAdded = add_conformance("Flatten", cases);

}  // namespace
}  // namespace surefit::conformance
