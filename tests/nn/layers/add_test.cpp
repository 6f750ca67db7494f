// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

LayerCase add(std::string name, const Shape& input, std::size_t terms) {
  const Reference reference = [](const std::vector<Array>& inputs, const Parameters&) {
    Array y = inputs[0];
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      for (std::size_t at = 0; at < y.values.size(); ++at) y.values[at] += inputs[i].values[at];
    }
    return y;
  };
  return {.name = std::move(name),
          .layer = Add{},
          .inputs = std::vector<Shape>(terms, input),
          .reference = reference};
}

std::vector<LayerCase> cases() {
  return {add("one_channel", {3, 5, 1}, 2),
          add("rgb_of_three", {2, 3, 3}, 3),
          add("eight", {2, 2, 8}, 2),
          add("thirteen_of_four", {3, 2, 13}, 4),
          add("rows", {13}, 2),
          add("rows_of_three", {5}, 3)};
}

const bool kAdded = add_conformance("Add", cases);

TEST(AddLayer, RefusesWhatDoesNotMatch) {
  const Layer layer = Add{};
  EXPECT_THROW(layer({Input({3, 3, 2})}), ConfigError);
  EXPECT_THROW(layer({Input({3, 3, 2}), Input({3, 3, 1})}), ConfigError);
  EXPECT_THROW(layer({Input({4}), Input({2, 2})}), ConfigError);
}

}  // namespace
}  // namespace surefit::conformance
