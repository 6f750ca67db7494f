// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

// Padded positions do not count.
Reference pool_reference(const AveragePooling2D& spec) {
  return [spec](const std::vector<Array>& inputs, const Parameters&) {
    const Array& x = inputs[0];
    const Window window = {spec.pool_size, spec.strides.value_or(spec.pool_size), 1,
                           spec.padding == "same"};
    Array y(pooled_shape(x.shape, window, x.shape[3])), taps = y;
    for_each_tap(x.shape, window, [&](auto n, auto oh, auto ow, int, int, auto h, auto w) {
      for (std::int64_t c = 0; c < x.shape[3]; ++c) {
        y.at(n, oh, ow, c) += x.at(n, h, w, c);
        taps.at(n, oh, ow, c) += 1;
      }
    });
    for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] /= taps.values[i];
    return y;
  };
}

LayerCase pool(std::string name, Shape input, const AveragePooling2D& spec) {
  return {.name = std::move(name),
          .layer = spec,
          .inputs = {std::move(input)},
          .reference = pool_reference(spec)};
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list = {
      pool("halve", {6, 8, 8}, {}),
      pool("one_channel_odd", {7, 5, 1}, {}),
      pool("rgb_same_odd", {7, 5, 3}, {.padding = "same"}),
      pool("overlapping_same", {7, 6, 5}, {.pool_size = 3, .padding = "same", .strides = Pair(2)}),
      pool("overlapping_valid", {7, 9, 13}, {.pool_size = 3, .strides = Pair(2)}),
      pool("dense_windows", {5, 4, 8},
           {.pool_size = {2, 3}, .padding = "same", .strides = Pair(1)}),
      pool("gaps", {7, 7, 5}, {.pool_size = 2, .strides = Pair(3, 2)}),
      pool("whole", {3, 4, 13}, {.pool_size = {3, 4}}),
      pool("one_pixel", {1, 1, 3}, {.pool_size = 2, .padding = "same"}),
  };
  list[0].invalid = {{"pool_size", std::int64_t{0}},
                     {"pool_size", std::int64_t{9}},  // larger than the picture
                     {"pool_size", std::int64_t{1000}},
                     {"padding", std::string("full")},
                     {"strides", std::int64_t{0}},
                     {"strides", std::string("2")},
                     {"data_format", std::string("channels_first")}};
  return list;
}

const bool kAdded = add_conformance("AveragePooling2D", cases);

}  // namespace
}  // namespace surefit::conformance
