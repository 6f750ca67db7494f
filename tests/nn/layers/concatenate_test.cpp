// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

LayerCase concatenate(std::string name, std::vector<Shape> inputs, int axis) {
  const Reference reference = [axis](const std::vector<Array>& arrays, const Parameters&) {
    const auto rank = static_cast<int>(arrays[0].shape.rank());
    const auto along = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    std::vector<std::int64_t> dims(arrays[0].shape.dims().begin(), arrays[0].shape.dims().end());
    std::size_t outer = 1;
    for (std::size_t i = 0; i < along; ++i) outer *= static_cast<std::size_t>(dims[i]);
    dims[along] = 0;
    for (const Array& array : arrays) dims[along] += array.shape[along];
    Array y{Shape(dims)};
    auto at = y.values.begin();
    for (std::size_t row = 0; row < outer; ++row) {
      for (const Array& array : arrays) {
        const std::size_t chunk = array.values.size() / outer;
        at =
            std::copy_n(array.values.begin() + static_cast<std::ptrdiff_t>(row * chunk), chunk, at);
      }
    }
    return y;
  };
  return {.name = std::move(name),
          .layer = Concatenate{.axis = axis},
          .inputs = std::move(inputs),
          .reference = reference};
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list = {
      concatenate("channel_blocks", {{3, 4, 8}, {3, 4, 16}}, -1),
      concatenate("odd_channels", {{3, 2, 5}, {3, 2, 13}, {3, 2, 3}}, 3),
      concatenate("one_channel_each", {{2, 2, 1}, {2, 2, 1}}, -1),
      concatenate("rows_of_pixels", {{2, 3, 5}, {4, 3, 5}}, 1),
      concatenate("columns", {{2, 3, 8}, {2, 1, 8}}, 2),
      concatenate("rows", {{13}, {5}, {8}}, -1),
  };
  list[0].invalid = {{"axis", std::int64_t{0}},
                     {"axis", std::int64_t{4}},
                     {"axis", std::int64_t{-4}},
                     {"axis", std::int64_t{1}}};
  return list;
}

const bool kAdded = add_conformance("Concatenate", cases);

TEST(ConcatenateLayer, RefusesWhatDoesNotMatch) {
  const Layer layer = Concatenate{};
  EXPECT_THROW(layer({Input({3, 3, 2})}), ConfigError);
  EXPECT_THROW(layer({Input({3, 3, 2}), Input({3, 2, 2})}), ConfigError);
  EXPECT_THROW(layer({Input({4}), Input({2, 2})}), ConfigError);
}

}  // namespace
}  // namespace surefit::conformance
