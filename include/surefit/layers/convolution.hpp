// SPDX-License-Identifier: Apache-2.0
// Convolutions. Kernels have Keras's layout, (height, width, in, out).
#pragma once

#include "surefit/layers/spec.hpp"

namespace surefit {

// How convolutions are computed: part of a model's numerics, never of its plan. Each way has the
// same bits for any memory and any number of threads, but not those of another way.
enum class Convolutions : std::uint8_t {
  kExact,     // by their definition
  kWinograd,  // those of 3x3 without strides by F(4x4, 3x3): about twice as fast, three to five
              // times the rounding error
  kOneDnn,    // those behind the first layer by oneDNN instead of our own kernels
};
inline constexpr Convolutions kDefaultConvolutions = Convolutions::kWinograd;

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
  static void fields(auto& field) {
    field("filters", &Conv2D::filters);
    field("kernel_size", &Conv2D::kernel_size);
    field("strides", &Conv2D::strides);
    field("padding", &Conv2D::padding);
    field("data_format", &Conv2D::data_format);
    field("dilation_rate", &Conv2D::dilation_rate);
    field("groups", &Conv2D::groups);
    field("activation", &Conv2D::activation);
    field("use_bias", &Conv2D::use_bias);
    field("kernel_initializer", &Conv2D::kernel_initializer);
    field("bias_initializer", &Conv2D::bias_initializer);
    field("kernel_regularizer", &Conv2D::kernel_regularizer);
    field("bias_regularizer", &Conv2D::bias_regularizer);
    field("activity_regularizer", &Conv2D::activity_regularizer);
    field("kernel_constraint", &Conv2D::kernel_constraint);
    field("bias_constraint", &Conv2D::bias_constraint);
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
  static void fields(auto& field) {
    field("kernel_size", &DepthwiseConv2D::kernel_size);
    field("strides", &DepthwiseConv2D::strides);
    field("padding", &DepthwiseConv2D::padding);
    field("depth_multiplier", &DepthwiseConv2D::depth_multiplier);
    field("data_format", &DepthwiseConv2D::data_format);
    field("dilation_rate", &DepthwiseConv2D::dilation_rate);
    field("activation", &DepthwiseConv2D::activation);
    field("use_bias", &DepthwiseConv2D::use_bias);
    field("depthwise_initializer", &DepthwiseConv2D::depthwise_initializer);
    field("bias_initializer", &DepthwiseConv2D::bias_initializer);
    field("depthwise_regularizer", &DepthwiseConv2D::depthwise_regularizer);
    field("bias_regularizer", &DepthwiseConv2D::bias_regularizer);
    field("activity_regularizer", &DepthwiseConv2D::activity_regularizer);
    field("depthwise_constraint", &DepthwiseConv2D::depthwise_constraint);
    field("bias_constraint", &DepthwiseConv2D::bias_constraint);
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
  static void fields(auto& field) {
    field("filters", &SeparableConv2D::filters);
    field("kernel_size", &SeparableConv2D::kernel_size);
    field("strides", &SeparableConv2D::strides);
    field("padding", &SeparableConv2D::padding);
    field("data_format", &SeparableConv2D::data_format);
    field("dilation_rate", &SeparableConv2D::dilation_rate);
    field("depth_multiplier", &SeparableConv2D::depth_multiplier);
    field("activation", &SeparableConv2D::activation);
    field("use_bias", &SeparableConv2D::use_bias);
    field("depthwise_initializer", &SeparableConv2D::depthwise_initializer);
    field("pointwise_initializer", &SeparableConv2D::pointwise_initializer);
    field("bias_initializer", &SeparableConv2D::bias_initializer);
    field("depthwise_regularizer", &SeparableConv2D::depthwise_regularizer);
    field("pointwise_regularizer", &SeparableConv2D::pointwise_regularizer);
    field("bias_regularizer", &SeparableConv2D::bias_regularizer);
    field("activity_regularizer", &SeparableConv2D::activity_regularizer);
    field("depthwise_constraint", &SeparableConv2D::depthwise_constraint);
    field("pointwise_constraint", &SeparableConv2D::pointwise_constraint);
    field("bias_constraint", &SeparableConv2D::bias_constraint);
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
  static void fields(auto& field) {
    field("filters", &Conv2DTranspose::filters);
    field("kernel_size", &Conv2DTranspose::kernel_size);
    field("strides", &Conv2DTranspose::strides);
    field("padding", &Conv2DTranspose::padding);
    field("output_padding", &Conv2DTranspose::output_padding);
    field("data_format", &Conv2DTranspose::data_format);
    field("dilation_rate", &Conv2DTranspose::dilation_rate);
    field("activation", &Conv2DTranspose::activation);
    field("use_bias", &Conv2DTranspose::use_bias);
    field("kernel_initializer", &Conv2DTranspose::kernel_initializer);
    field("bias_initializer", &Conv2DTranspose::bias_initializer);
    field("kernel_regularizer", &Conv2DTranspose::kernel_regularizer);
    field("bias_regularizer", &Conv2DTranspose::bias_regularizer);
    field("activity_regularizer", &Conv2DTranspose::activity_regularizer);
    field("kernel_constraint", &Conv2DTranspose::kernel_constraint);
    field("bias_constraint", &Conv2DTranspose::bias_constraint);
  }
};
LayerPtr make_layer(const Conv2DTranspose&);

}  // namespace surefit
