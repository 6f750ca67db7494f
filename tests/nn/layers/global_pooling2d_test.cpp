// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

LayerCase global(std::string name, Shape input, const GlobalAveragePooling2D& spec) {
  const auto reference = [spec](const std::vector<Array>& inputs, const Parameters&) {
    const Array& x = inputs[0];
    const std::int64_t batch = x.shape[0], channels = x.shape[3], pixels = x.shape[1] * x.shape[2];
    Array y(spec.keepdims ? Shape{batch, 1, 1, channels} : Shape{batch, channels});
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      const auto c = i % static_cast<std::size_t>(channels);
      const auto n = i / static_cast<std::size_t>(pixels * channels);
      y.values[n * static_cast<std::size_t>(channels) + c] +=
          x.values[i] / static_cast<double>(pixels);
    }
    return y;
  };
  return {
      .name = std::move(name), .layer = spec, .inputs = {std::move(input)}, .reference = reference};
}

LayerCase global_max(std::string name, Shape input, const GlobalMaxPooling2D& spec) {
  const auto reference = [spec](const std::vector<Array>& inputs, const Parameters&) {
    const Array& x = inputs[0];
    const std::int64_t batch = x.shape[0], channels = x.shape[3];
    Array y(spec.keepdims ? Shape{batch, 1, 1, channels} : Shape{batch, channels});
    for (std::int64_t n = 0; n < batch; ++n) {
      for (std::int64_t c = 0; c < channels; ++c) {
        double most = x.at(n, 0, 0, c);
        for (std::int64_t i = 1; i < x.shape[1] * x.shape[2]; ++i)
          most = std::max(most, x.at(n, i / x.shape[2], i % x.shape[2], c));
        y.values[static_cast<std::size_t>(n * channels + c)] = most;
      }
    }
    return y;
  };
  return {
      .name = std::move(name), .layer = spec, .inputs = {std::move(input)}, .reference = reference};
}

std::vector<LayerCase> max_cases() {
  std::vector<LayerCase> list = {global_max("one_channel", {5, 3, 1}, {}),
                                 global_max("eight", {4, 4, 8}, {}),
                                 global_max("thirteen_keepdims", {3, 5, 13}, {.keepdims = true})};
  list[0].invalid = {{"data_format", std::string("channels_first")}};
  return list;
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list = {
      global("one_channel", {5, 3, 1}, {}),
      global("rgb_keepdims", {4, 4, 3}, {.keepdims = true}),
      global("five", {1, 7, 5}, {}),
      global("eight", {4, 4, 8}, {}),
      global("thirteen", {3, 5, 13}, {}),
      global("thirteen_keepdims", {3, 5, 13}, {.keepdims = true}),
      global("one_pixel", {1, 1, 13}, {}),
  };
  list[0].invalid = {{"data_format", std::string("channels_first")},
                     {"keepdims", std::string("yes")}};
  return list;
}

const bool kAdded = add_conformance("GlobalAveragePooling2D", cases) &&
                    add_conformance("GlobalMaxPooling2D", max_cases);

}  // namespace
}  // namespace surefit::conformance
