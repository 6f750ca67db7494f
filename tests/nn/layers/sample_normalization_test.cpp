// SPDX-License-Identifier: Apache-2.0
// LayerNormalization and GroupNormalization.
#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

// `row` and `column` of element i of a sample: which statistics and which parameter it uses.
template <typename Spec, typename Row>
Array normalise(const Array& x, const Parameters& parameters, const Spec& spec, std::size_t rows,
                std::size_t columns, const Row& row) {
  Array y = x;
  const auto batch = static_cast<std::size_t>(x.shape[0]);
  const std::size_t count = x.values.size() / batch;
  for (std::size_t n = 0; n < batch; ++n) {
    std::vector<double> sum(rows), square(rows), size(rows);
    for (std::size_t i = 0; i < count; ++i) {
      sum[row(i)] += x.values[n * count + i];
      size[row(i)] += 1;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const double centred = x.values[n * count + i] - sum[row(i)] / size[row(i)];
      square[row(i)] += centred * centred;
    }
    for (std::size_t i = 0; i < count; ++i) {
      double& value = y.values[n * count + i];
      value = (value - sum[row(i)] / size[row(i)]) /
              std::sqrt(square[row(i)] / size[row(i)] + spec.epsilon);
      if (spec.scale) value *= parameters.at("gamma").values[i % columns];
      if (spec.center) value += parameters.at("beta").values[i % columns];
    }
  }
  return y;
}

LayerCase layer_norm(std::string name, Shape input, const LayerNormalization& spec) {
  const Reference reference = [spec](const std::vector<Array>& inputs,
                                     const Parameters& parameters) {
    const Shape shape = inputs[0].shape.drop_front();
    std::size_t columns = 1;
    for (std::size_t i = 0; i < spec.axis.values.size(); ++i)
      columns *= static_cast<std::size_t>(shape[shape.rank() - 1 - i]);
    return normalise(inputs[0], parameters, spec, shape.count() / columns, columns,
                     [columns](std::size_t i) { return i / columns; });
  };
  return {
      .name = std::move(name), .layer = spec, .inputs = {std::move(input)}, .reference = reference};
}

LayerCase group_norm(std::string name, Shape input, const GroupNormalization& spec) {
  const Reference reference = [spec](const std::vector<Array>& inputs,
                                     const Parameters& parameters) {
    const auto channels = static_cast<std::size_t>(inputs[0].shape[inputs[0].shape.rank() - 1]);
    const std::size_t groups = spec.groups == -1 ? channels : static_cast<std::size_t>(spec.groups);
    return normalise(inputs[0], parameters, spec, groups, channels,
                     [=](std::size_t i) { return i % channels / (channels / groups); });
  };
  return {
      .name = std::move(name), .layer = spec, .inputs = {std::move(input)}, .reference = reference};
}

std::vector<LayerCase> layer_cases() {
  std::vector<LayerCase> list = {
      layer_norm("channels", {3, 2, 13}, {}),
      layer_norm("whole_sample", {3, 2, 5}, {.axis = {1, 2, 3}}),
      layer_norm("row", {13}, {.epsilon = 1e-5}),
      layer_norm("no_scale", {2, 2, 8}, {.scale = false}),
      layer_norm("nothing_learned", {7}, {.center = false, .scale = false}),
  };
  list[0].invalid = {{"axis", std::int64_t{1}},
                     {"axis", ConfigList{std::int64_t{1}, std::int64_t{3}}},
                     {"axis", std::int64_t{7}},
                     {"epsilon", 0.0}};
  return list;
}

std::vector<LayerCase> group_cases() {
  std::vector<LayerCase> list = {
      group_norm("pairs", {3, 2, 12}, {.groups = 6}),
      group_norm("one_group", {3, 2, 13}, {.groups = 1}),
      group_norm("each_channel", {4, 3, 5}, {.groups = -1}),
      group_norm("row", {12}, {.groups = 3, .scale = false}),
  };
  list[0].invalid = {{"groups", std::int64_t{5}},
                     {"groups", std::int64_t{0}},
                     {"axis", std::int64_t{1}},
                     {"epsilon", -1.0}};
  return list;
}

const bool kAdded = add_conformance("LayerNormalization", layer_cases) &&
                    add_conformance("GroupNormalization", group_cases);

}  // namespace
}  // namespace surefit::conformance
