// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

Reference separable_reference(const SeparableConv2D& spec) {
  return [spec](const std::vector<Array>& inputs, const Parameters& parameters) {
    const Window window = {spec.kernel_size, spec.strides, spec.dilation_rate,
                           spec.padding == "same"};
    const Array between = depthwise(inputs[0], parameters.at("depthwise_kernel"), window);
    Array y = convolve(between, parameters.at("pointwise_kernel"), {.kernel = 1, .stride = 1});
    if (spec.use_bias) add_bias(y, parameters.at("bias"));
    return activate(std::move(y), spec.activation);
  };
}

LayerCase conv(std::string name, Shape input, const SeparableConv2D& spec) {
  return {.name = std::move(name),
          .layer = spec,
          .inputs = {std::move(input)},
          .reference = separable_reference(spec)};
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list = {
      conv("same_relu", {6, 5, 8},
           {.filters = 13, .kernel_size = 3, .padding = "same", .activation = "relu"}),
      conv("rgb_valid", {6, 7, 3}, {.filters = 5, .kernel_size = 3, .use_bias = false}),
      conv(
          "multiplied_stride", {7, 6, 5},
          {.filters = 8, .kernel_size = 3, .strides = 2, .padding = "same", .depth_multiplier = 2}),
      conv("one_channel", {5, 5, 1}, {.filters = 3, .kernel_size = 2}),
  };
  list[0].invalid = {
      {"filters", std::int64_t{0}},         {"depth_multiplier", std::int64_t{-1}},
      {"kernel_size", std::int64_t{0}},     {"padding", std::string("full")},
      {"activation", std::string("reelu")}, {"data_format", std::string("channels_first")}};
  return list;
}

const bool kAdded = add_conformance("SeparableConv2D", cases);

}  // namespace
}  // namespace surefit::conformance
