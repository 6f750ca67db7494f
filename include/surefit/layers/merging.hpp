// SPDX-License-Identifier: Apache-2.0
// Several inputs into one output.
#pragma once

#include "surefit/layers/spec.hpp"

namespace surefit {

// Sum of two or more inputs; extents of 1 are repeated.
struct Add {
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Add";
  static void fields(auto&) {}
};
LayerPtr make_layer(const Add&);

// Inputs side by side along an axis that counts the batch, as in Keras; -1 is the last.
struct Concatenate {
  int axis = -1;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Concatenate";
  static void fields(auto& field) { field("axis", &Concatenate::axis); }
};
LayerPtr make_layer(const Concatenate&);

// Product of two or more inputs; extents of 1 are repeated.
struct Multiply {
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Multiply";
  static void fields(auto&) {}
};
LayerPtr make_layer(const Multiply&);

// The first input minus the second; extents of 1 are repeated.
struct Subtract {
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Subtract";
  static void fields(auto&) {}
};
LayerPtr make_layer(const Subtract&);

// Mean of two or more inputs; extents of 1 are repeated.
struct Average {
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Average";
  static void fields(auto&) {}
};
LayerPtr make_layer(const Average&);

// Largest of two or more inputs, element by element; extents of 1 are repeated.
struct Maximum {
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Maximum";
  static void fields(auto&) {}
};
LayerPtr make_layer(const Maximum&);

// Smallest of two or more inputs, element by element; extents of 1 are repeated.
struct Minimum {
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Minimum";
  static void fields(auto&) {}
};
LayerPtr make_layer(const Minimum&);

}  // namespace surefit
