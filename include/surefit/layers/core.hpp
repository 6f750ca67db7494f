// SPDX-License-Identifier: Apache-2.0
// Inputs, dense layers and changes of shape.
#pragma once

#include "surefit/layers/spec.hpp"

namespace surefit {

// The entry point of a model: shape without the batch.
struct InputLayer {
  std::vector<std::int64_t> shape = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "InputLayer";
  static void fields(auto& field) { field("shape", &InputLayer::shape); }
};
LayerPtr make_layer(const InputLayer&);

// y = x kernel + bias over the last axis; the axes before it are rows of their own.
struct Dense {
  int units = 0;
  std::string activation = "linear";
  bool use_bias = true;
  Object kernel_initializer = {"GlorotUniform"};
  Object bias_initializer = {"Zeros"};
  std::optional<Object> kernel_regularizer = {}, bias_regularizer = {}, activity_regularizer = {};
  std::optional<Object> kernel_constraint = {}, bias_constraint = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Dense";
  static void fields(auto& field) {
    field("units", &Dense::units);
    field("activation", &Dense::activation);
    field("use_bias", &Dense::use_bias);
    field("kernel_initializer", &Dense::kernel_initializer);
    field("bias_initializer", &Dense::bias_initializer);
    field("kernel_regularizer", &Dense::kernel_regularizer);
    field("bias_regularizer", &Dense::bias_regularizer);
    field("activity_regularizer", &Dense::activity_regularizer);
    field("kernel_constraint", &Dense::kernel_constraint);
    field("bias_constraint", &Dense::bias_constraint);
  }
};
LayerPtr make_layer(const Dense&);

// (h, w, c) -> (h w c,), in Keras's order; moves no memory.
struct Flatten {
  std::string data_format = "channels_last";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Flatten";
  static void fields(auto& field) { field("data_format", &Flatten::data_format); }
};
LayerPtr make_layer(const Flatten&);

// The same elements in another shape, row-major; one extent may be -1 and is found.
struct Reshape {
  std::vector<std::int64_t> target_shape = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Reshape";
  static void fields(auto& field) { field("target_shape", &Reshape::target_shape); }
};
LayerPtr make_layer(const Reshape&);

// Axes in another order, counted from 1 without the batch: dims {2, 1, 3} swaps height and width.
struct Permute {
  std::vector<std::int64_t> dims = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Permute";
  static void fields(auto& field) { field("dims", &Permute::dims); }
};
LayerPtr make_layer(const Permute&);

}  // namespace surefit
