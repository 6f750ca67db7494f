// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

Reference conv_reference(const Conv2D& spec) {
  return [spec](const std::vector<Array>& inputs, const Parameters& parameters) {
    const Window window = {spec.kernel_size, spec.strides, spec.dilation_rate,
                           spec.padding == "same"};
    Array y = convolve(inputs[0], parameters.at("kernel"), window);
    if (spec.use_bias) add_bias(y, parameters.at("bias"));
    return activate(std::move(y), spec.activation);
  };
}

LayerCase conv(std::string name, Shape input, const Conv2D& spec) {
  return {.name = std::move(name),
          .layer = spec,
          .inputs = {std::move(input)},
          .reference = conv_reference(spec)};
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list = {
      conv("one_channel_relu", {7, 6, 1}, {.filters = 5, .kernel_size = 3, .activation = "relu"}),
      conv("rgb_same", {9, 7, 3}, {.filters = 13, .kernel_size = 3, .padding = "same"}),
      conv("rgb_same_stride", {8, 9, 3},
           {.filters = 8, .kernel_size = 5, .strides = 2, .padding = "same"}),
      conv("five_valid_uneven", {7, 7, 5},
           {.filters = 3, .kernel_size = {3, 2}, .strides = {2, 1}}),
      conv("eight_same_relu", {6, 5, 8},
           {.filters = 13, .kernel_size = 3, .padding = "same", .activation = "relu"}),
      conv("thirteen_stride", {7, 6, 13},
           {.filters = 5, .kernel_size = 3, .strides = 2, .use_bias = false}),
      conv("thirteen_same_stride", {7, 6, 13},
           {.filters = 8, .kernel_size = 3, .strides = 2, .padding = "same"}),
      conv("pointwise", {5, 4, 13}, {.filters = 8, .kernel_size = 1}),
      conv("pointwise_stride", {5, 7, 8},
           {.filters = 13, .kernel_size = 1, .strides = 2, .use_bias = false}),
      conv("dilated_valid", {9, 8, 8}, {.filters = 5, .kernel_size = 3, .dilation_rate = 2}),
      conv("dilated_same", {7, 7, 13},
           {.filters = 3, .kernel_size = 3, .padding = "same", .dilation_rate = 2}),
      conv("dilated_rgb", {7, 6, 3},
           {.filters = 1, .kernel_size = 3, .padding = "same", .dilation_rate = {2, 1}}),
      conv("to_one_channel", {5, 5, 8}, {.filters = 1, .kernel_size = 3}),
      conv("kernel_beyond_picture", {3, 2, 5}, {.filters = 5, .kernel_size = 5, .padding = "same"}),
      conv("one_pixel", {1, 1, 13}, {.filters = 13, .kernel_size = 3, .padding = "same"}),
      // More than the four channel blocks of one slice of the weights' gradient, with a partial
      // last block.
      conv("many_filters", {4, 3, 8}, {.filters = 45, .kernel_size = 3, .padding = "same"}),
      conv("first_layer_7x7", {15, 14, 3},
           {.filters = 8, .kernel_size = 7, .strides = 2, .padding = "same"}),
      // Activations that do not keep zero must not leak into the padding lanes.
      conv("sigmoid_thirteen", {4, 5, 8},
           {.filters = 13, .kernel_size = 2, .activation = "sigmoid"}),
      conv("softmax_channels", {4, 3, 3},
           {.filters = 5, .kernel_size = 2, .activation = "softmax"}),
  };
  list[0].invalid = {{"filters", std::int64_t{0}},
                     {"filters", std::int64_t{-3}},
                     {"filters", std::string("many")},
                     {"kernel_size", ConfigList{std::int64_t{0}, std::int64_t{3}}},
                     {"kernel_size", std::int64_t{8}},  // larger than the picture
                     {"kernel_size", ConfigList{std::int64_t{3}}},
                     {"strides", std::int64_t{0}},
                     {"padding", std::string("causal")},
                     {"data_format", std::string("channels_first")},
                     {"dilation_rate", std::int64_t{-1}},
                     {"groups", std::int64_t{2}},
                     {"activation", std::string("reelu")},
                     {"use_bias", std::int64_t{1}},
                     {"kernel_regularizer", std::string("L3")},
                     {"kernel_constraint", std::string("L2")},
                     {"activity_regularizer", std::string("L2")}};
  return list;
}

const bool kAdded = add_conformance("Conv2D", cases);

}  // namespace
}  // namespace surefit::conformance
