// SPDX-License-Identifier: Apache-2.0
// Activations as layers.
#pragma once

#include "surefit/layers/spec.hpp"

namespace surefit {

// An activation by name: linear, relu, softmax, ...
struct Activation {
  std::string activation = "linear";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Activation";
  static void fields(auto& field) { field("activation", &Activation::activation); }
};
LayerPtr make_layer(const Activation&);

// max(x, 0), optionally capped, leaky below and shifted as in Keras.
struct ReLU {
  std::optional<double> max_value = {};
  double negative_slope = 0;
  double threshold = 0;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "ReLU";
  static void fields(auto& field) {
    field("max_value", &ReLU::max_value);
    field("negative_slope", &ReLU::negative_slope);
    field("threshold", &ReLU::threshold);
  }
};
LayerPtr make_layer(const ReLU&);

// exp(x) / sum exp(x) over the last axis.
struct Softmax {
  int axis = -1;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Softmax";
  static void fields(auto& field) { field("axis", &Softmax::axis); }
};
LayerPtr make_layer(const Softmax&);

// x above 0, negative_slope * x below.
struct LeakyReLU {
  double negative_slope = 0.3;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "LeakyReLU";
  static void fields(auto& field) { field("negative_slope", &LeakyReLU::negative_slope); }
};
LayerPtr make_layer(const LeakyReLU&);

// x above 0, alpha * x below, with an alpha to learn for each element; shared_axes (from 1) share
// one.
struct PReLU {
  Object alpha_initializer = {"Zeros"};
  std::optional<Object> alpha_regularizer = {};
  std::optional<Object> alpha_constraint = {};
  Axes shared_axes = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "PReLU";
  static void fields(auto& field) {
    field("alpha_initializer", &PReLU::alpha_initializer);
    field("alpha_regularizer", &PReLU::alpha_regularizer);
    field("alpha_constraint", &PReLU::alpha_constraint);
    field("shared_axes", &PReLU::shared_axes);
  }
};
LayerPtr make_layer(const PReLU&);

// x above 0, alpha * (exp(x) - 1) below.
struct ELU {
  double alpha = 1;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "ELU";
  static void fields(auto& field) { field("alpha", &ELU::alpha); }
};
LayerPtr make_layer(const ELU&);

}  // namespace surefit
