// SPDX-License-Identifier: Apache-2.0
// Reshape and Permute.
#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

LayerCase reshape(std::string name, Shape input, Shape output, std::vector<std::int64_t> target) {
  const Reference reference = [output](const std::vector<Array>& inputs, const Parameters&) {
    Array y(output.prepend(inputs[0].shape[0]));
    y.values = inputs[0].values;
    return y;
  };
  return {.name = std::move(name),
          .layer = Reshape{.target_shape = std::move(target)},
          .inputs = {std::move(input)},
          .reference = reference};
}

std::vector<LayerCase> reshape_cases() {
  std::vector<LayerCase> list = {reshape("to_row", {3, 2, 5}, {30}, {30}),
                                 reshape("to_picture", {30}, {2, 3, 5}, {2, -1, 5}),
                                 reshape("picture_to_picture", {4, 2, 8}, {2, 2, 16}, {2, 2, 16})};
  list[0].invalid = {{"target_shape", ConfigList{std::int64_t{31}}},
                     {"target_shape", ConfigList{std::int64_t{-1}, std::int64_t{-1}}},
                     {"target_shape", ConfigList{std::int64_t{7}, std::int64_t{-1}}},
                     {"target_shape", ConfigList{std::int64_t{0}}},
                     {"target_shape", ConfigList{}}};
  return list;
}

LayerCase permute(std::string name, Shape input, std::vector<std::int64_t> dims) {
  const Reference reference = [dims](const std::vector<Array>& inputs, const Parameters&) {
    const Array& x = inputs[0];
    const std::size_t rank = dims.size();
    std::vector<std::int64_t> extents = {x.shape[0]};
    for (const std::int64_t axis : dims) extents.push_back(x.shape[static_cast<std::size_t>(axis)]);
    Array y{Shape(extents)};
    const std::size_t count = x.values.size() / static_cast<std::size_t>(x.shape[0]);
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      // Coordinates of x's element, then its place in y.
      std::vector<std::int64_t> at(rank);
      auto rest = static_cast<std::int64_t>(i % count);
      for (std::size_t axis = rank; axis-- > 0; rest /= x.shape[axis + 1])
        at[axis] = rest % x.shape[axis + 1];
      std::int64_t to = 0;
      for (std::size_t axis = 0; axis < rank; ++axis)
        to = to * extents[axis + 1] + at[static_cast<std::size_t>(dims[axis] - 1)];
      y.values[i / count * count + static_cast<std::size_t>(to)] = x.values[i];
    }
    return y;
  };
  return {.name = std::move(name),
          .layer = Permute{.dims = std::move(dims)},
          .inputs = {std::move(input)},
          .reference = reference};
}

std::vector<LayerCase> permute_cases() {
  std::vector<LayerCase> list = {permute("transpose", {3, 4, 5}, {2, 1, 3}),
                                 permute("channels_first", {2, 3, 13}, {3, 1, 2}),
                                 permute("row", {7}, {1})};
  list[0].invalid = {{"dims", ConfigList{std::int64_t{1}, std::int64_t{2}}},
                     {"dims", ConfigList{std::int64_t{0}, std::int64_t{1}, std::int64_t{2}}},
                     {"dims", ConfigList{std::int64_t{1}, std::int64_t{1}, std::int64_t{2}}},
                     {"dims", ConfigList{}}};
  return list;
}

const bool kAdded =
    add_conformance("Reshape", reshape_cases) && add_conformance("Permute", permute_cases);

}  // namespace
}  // namespace surefit::conformance
