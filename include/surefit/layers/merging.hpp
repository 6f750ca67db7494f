// SPDX-License-Identifier: Apache-2.0
// Several inputs into one output.
#pragma once

#include "surefit/layers/spec.hpp"

namespace surefit {

// Sum of two or more inputs of one shape.
struct Add {
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Add";
  static constexpr auto fields() { return std::tuple{}; }
};
LayerPtr make_layer(const Add&);

// Inputs side by side along an axis that counts the batch, as in Keras; -1 is the last.
struct Concatenate {
  int axis = -1;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Concatenate";
  static constexpr auto fields() { return std::tuple{SpecField{"axis", &Concatenate::axis}}; }
};
LayerPtr make_layer(const Concatenate&);

}  // namespace surefit
