// SPDX-License-Identifier: Apache-2.0
// Convolutions. Kernels have Keras's layout, (height, width, in, out).
#pragma once

#include "surefit/layers/spec.hpp"

namespace surefit {

// 2-D convolution (cross-correlation), y = x * kernel + bias.
struct Conv2D {
  int filters = 0;
  Pair kernel_size = {1, 1};
  Pair strides = {1, 1};
  std::string padding = "valid";  // or "same"
  std::string data_format = "channels_last";
  Pair dilation_rate = {1, 1};
  int groups = 1;
  std::string activation = "linear";
  bool use_bias = true;
  Object kernel_initializer = {"GlorotUniform"};
  Object bias_initializer = {"Zeros"};
  std::optional<Object> kernel_regularizer = {}, bias_regularizer = {}, activity_regularizer = {};
  std::optional<Object> kernel_constraint = {}, bias_constraint = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Conv2D";
  static constexpr auto fields() {
    return std::tuple{SpecField{"filters", &Conv2D::filters},
                      SpecField{"kernel_size", &Conv2D::kernel_size},
                      SpecField{"strides", &Conv2D::strides},
                      SpecField{"padding", &Conv2D::padding},
                      SpecField{"data_format", &Conv2D::data_format},
                      SpecField{"dilation_rate", &Conv2D::dilation_rate},
                      SpecField{"groups", &Conv2D::groups},
                      SpecField{"activation", &Conv2D::activation},
                      SpecField{"use_bias", &Conv2D::use_bias},
                      SpecField{"kernel_initializer", &Conv2D::kernel_initializer},
                      SpecField{"bias_initializer", &Conv2D::bias_initializer},
                      SpecField{"kernel_regularizer", &Conv2D::kernel_regularizer},
                      SpecField{"bias_regularizer", &Conv2D::bias_regularizer},
                      SpecField{"activity_regularizer", &Conv2D::activity_regularizer},
                      SpecField{"kernel_constraint", &Conv2D::kernel_constraint},
                      SpecField{"bias_constraint", &Conv2D::bias_constraint}};
  }
};
LayerPtr make_layer(const Conv2D&);

// One filter per input channel and multiple, kernel (height, width, channels, depth_multiplier):
// output channel c * depth_multiplier + m is filter m of input channel c.
struct DepthwiseConv2D {
  Pair kernel_size = {1, 1};
  Pair strides = {1, 1};
  std::string padding = "valid";
  int depth_multiplier = 1;
  std::string data_format = "channels_last";
  Pair dilation_rate = {1, 1};
  std::string activation = "linear";
  bool use_bias = true;
  Object depthwise_initializer = {"GlorotUniform"};
  Object bias_initializer = {"Zeros"};
  std::optional<Object> depthwise_regularizer = {};
  std::optional<Object> bias_regularizer = {};
  std::optional<Object> activity_regularizer = {};
  std::optional<Object> depthwise_constraint = {};
  std::optional<Object> bias_constraint = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "DepthwiseConv2D";
  static constexpr auto fields() {
    return std::tuple{SpecField{"kernel_size", &DepthwiseConv2D::kernel_size},
                      SpecField{"strides", &DepthwiseConv2D::strides},
                      SpecField{"padding", &DepthwiseConv2D::padding},
                      SpecField{"depth_multiplier", &DepthwiseConv2D::depth_multiplier},
                      SpecField{"data_format", &DepthwiseConv2D::data_format},
                      SpecField{"dilation_rate", &DepthwiseConv2D::dilation_rate},
                      SpecField{"activation", &DepthwiseConv2D::activation},
                      SpecField{"use_bias", &DepthwiseConv2D::use_bias},
                      SpecField{"depthwise_initializer", &DepthwiseConv2D::depthwise_initializer},
                      SpecField{"bias_initializer", &DepthwiseConv2D::bias_initializer},
                      SpecField{"depthwise_regularizer", &DepthwiseConv2D::depthwise_regularizer},
                      SpecField{"bias_regularizer", &DepthwiseConv2D::bias_regularizer},
                      SpecField{"activity_regularizer", &DepthwiseConv2D::activity_regularizer},
                      SpecField{"depthwise_constraint", &DepthwiseConv2D::depthwise_constraint},
                      SpecField{"bias_constraint", &DepthwiseConv2D::bias_constraint}};
  }
};
LayerPtr make_layer(const DepthwiseConv2D&);

// A depthwise convolution, then a pointwise one that mixes the channels; the bias follows both.
struct SeparableConv2D {
  int filters = 0;
  Pair kernel_size = {1, 1};
  Pair strides = {1, 1};
  std::string padding = "valid";
  std::string data_format = "channels_last";
  Pair dilation_rate = {1, 1};
  int depth_multiplier = 1;
  std::string activation = "linear";
  bool use_bias = true;
  Object depthwise_initializer = {"GlorotUniform"};
  Object pointwise_initializer = {"GlorotUniform"};
  Object bias_initializer = {"Zeros"};
  std::optional<Object> depthwise_regularizer = {};
  std::optional<Object> pointwise_regularizer = {};
  std::optional<Object> bias_regularizer = {};
  std::optional<Object> activity_regularizer = {};
  std::optional<Object> depthwise_constraint = {};
  std::optional<Object> pointwise_constraint = {};
  std::optional<Object> bias_constraint = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "SeparableConv2D";
  static constexpr auto fields() {
    return std::tuple{SpecField{"filters", &SeparableConv2D::filters},
                      SpecField{"kernel_size", &SeparableConv2D::kernel_size},
                      SpecField{"strides", &SeparableConv2D::strides},
                      SpecField{"padding", &SeparableConv2D::padding},
                      SpecField{"data_format", &SeparableConv2D::data_format},
                      SpecField{"dilation_rate", &SeparableConv2D::dilation_rate},
                      SpecField{"depth_multiplier", &SeparableConv2D::depth_multiplier},
                      SpecField{"activation", &SeparableConv2D::activation},
                      SpecField{"use_bias", &SeparableConv2D::use_bias},
                      SpecField{"depthwise_initializer", &SeparableConv2D::depthwise_initializer},
                      SpecField{"pointwise_initializer", &SeparableConv2D::pointwise_initializer},
                      SpecField{"bias_initializer", &SeparableConv2D::bias_initializer},
                      SpecField{"depthwise_regularizer", &SeparableConv2D::depthwise_regularizer},
                      SpecField{"pointwise_regularizer", &SeparableConv2D::pointwise_regularizer},
                      SpecField{"bias_regularizer", &SeparableConv2D::bias_regularizer},
                      SpecField{"activity_regularizer", &SeparableConv2D::activity_regularizer},
                      SpecField{"depthwise_constraint", &SeparableConv2D::depthwise_constraint},
                      SpecField{"pointwise_constraint", &SeparableConv2D::pointwise_constraint},
                      SpecField{"bias_constraint", &SeparableConv2D::bias_constraint}};
  }
};
LayerPtr make_layer(const SeparableConv2D&);

// The gradient of a convolution as a layer: each input pixel spreads kernel_size output pixels,
// strides apart. Kernel (height, width, out, in). "same" gives in * stride pixels, "valid" those
// the kernel reaches beyond; output_padding sets how many more pixels there are at the end instead.
struct Conv2DTranspose {
  int filters = 0;
  Pair kernel_size = {1, 1};
  Pair strides = {1, 1};
  std::string padding = "valid";
  std::optional<Pair> output_padding = {};
  std::string data_format = "channels_last";
  Pair dilation_rate = {1, 1};
  std::string activation = "linear";
  bool use_bias = true;
  Object kernel_initializer = {"GlorotUniform"};
  Object bias_initializer = {"Zeros"};
  std::optional<Object> kernel_regularizer = {};
  std::optional<Object> bias_regularizer = {};
  std::optional<Object> activity_regularizer = {};
  std::optional<Object> kernel_constraint = {};
  std::optional<Object> bias_constraint = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Conv2DTranspose";
  static constexpr auto fields() {
    return std::tuple{SpecField{"filters", &Conv2DTranspose::filters},
                      SpecField{"kernel_size", &Conv2DTranspose::kernel_size},
                      SpecField{"strides", &Conv2DTranspose::strides},
                      SpecField{"padding", &Conv2DTranspose::padding},
                      SpecField{"output_padding", &Conv2DTranspose::output_padding},
                      SpecField{"data_format", &Conv2DTranspose::data_format},
                      SpecField{"dilation_rate", &Conv2DTranspose::dilation_rate},
                      SpecField{"activation", &Conv2DTranspose::activation},
                      SpecField{"use_bias", &Conv2DTranspose::use_bias},
                      SpecField{"kernel_initializer", &Conv2DTranspose::kernel_initializer},
                      SpecField{"bias_initializer", &Conv2DTranspose::bias_initializer},
                      SpecField{"kernel_regularizer", &Conv2DTranspose::kernel_regularizer},
                      SpecField{"bias_regularizer", &Conv2DTranspose::bias_regularizer},
                      SpecField{"activity_regularizer", &Conv2DTranspose::activity_regularizer},
                      SpecField{"kernel_constraint", &Conv2DTranspose::kernel_constraint},
                      SpecField{"bias_constraint", &Conv2DTranspose::bias_constraint}};
  }
};
LayerPtr make_layer(const Conv2DTranspose&);

}  // namespace surefit
