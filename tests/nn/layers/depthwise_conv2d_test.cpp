// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

Reference depthwise_reference(const DepthwiseConv2D& spec) {
  return [spec](const std::vector<Array>& inputs, const Parameters& parameters) {
    const Window window = {spec.kernel_size, spec.strides, spec.dilation_rate,
                           spec.padding == "same"};
    Array y = depthwise(inputs[0], parameters.at("kernel"), window);
    if (spec.use_bias) add_bias(y, parameters.at("bias"));
    return activate(std::move(y), spec.activation);
  };
}

LayerCase conv(std::string name, Shape input, const DepthwiseConv2D& spec) {
  return {.name = std::move(name),
          .layer = spec,
          .inputs = {std::move(input)},
          .reference = depthwise_reference(spec)};
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list = {
      conv("same_relu", {6, 7, 8}, {.kernel_size = 3, .padding = "same", .activation = "relu"}),
      conv("thirteen_stride", {7, 6, 13}, {.kernel_size = 3, .strides = 2, .use_bias = false}),
      conv("rgb_even_kernel", {6, 5, 3}, {.kernel_size = {2, 3}, .padding = "same"}),
      conv("one_channel", {5, 5, 1}, {.kernel_size = 3}),
      conv("multiplied", {5, 6, 5}, {.kernel_size = 3, .padding = "same", .depth_multiplier = 3}),
      conv("multiplied_stride", {7, 6, 8},
           {.kernel_size = 3, .strides = 2, .padding = "same", .depth_multiplier = 2}),
      conv("dilated", {7, 8, 13}, {.kernel_size = 3, .padding = "same", .dilation_rate = 2}),
  };
  list[0].invalid = {
      {"depth_multiplier", std::int64_t{0}}, {"kernel_size", std::int64_t{0}},
      {"strides", std::int64_t{0}},          {"padding", std::string("full")},
      {"activation", std::string("reelu")},  {"data_format", std::string("channels_first")}};
  return list;
}

const bool kAdded = add_conformance("DepthwiseConv2D", cases);

}  // namespace
}  // namespace surefit::conformance
