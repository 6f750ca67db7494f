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
  static constexpr auto fields() {
    return std::tuple{SpecField{"activation", &Activation::activation}};
  }
};
LayerPtr make_layer(const Activation&);

// max(x, 0), optionally capped, leaky below and shifted as in Keras.
struct ReLU {
  std::optional<double> max_value = {};
  double negative_slope = 0;
  double threshold = 0;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "ReLU";
  static constexpr auto fields() {
    return std::tuple{SpecField{"max_value", &ReLU::max_value},
                      SpecField{"negative_slope", &ReLU::negative_slope},
                      SpecField{"threshold", &ReLU::threshold}};
  }
};
LayerPtr make_layer(const ReLU&);

// exp(x) / sum exp(x) over the last axis.
struct Softmax {
  int axis = -1;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Softmax";
  static constexpr auto fields() { return std::tuple{SpecField{"axis", &Softmax::axis}}; }
};
LayerPtr make_layer(const Softmax&);

}  // namespace surefit
