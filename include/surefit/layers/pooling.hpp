// SPDX-License-Identifier: Apache-2.0
// Pooling over windows or whole pictures.
#pragma once

#include "surefit/layers/spec.hpp"

namespace surefit {

// Maximum over windows; without strides they equal the window.
struct MaxPooling2D {
  Pair pool_size = {2, 2};
  std::string padding = "valid";
  std::optional<Pair> strides = {};
  std::string data_format = "channels_last";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "MaxPooling2D";
  static void fields(auto& field) {
    field("pool_size", &MaxPooling2D::pool_size);
    field("padding", &MaxPooling2D::padding);
    field("strides", &MaxPooling2D::strides);
    field("data_format", &MaxPooling2D::data_format);
  }
};
LayerPtr make_layer(const MaxPooling2D&);

// Mean over windows; padded positions do not count.
struct AveragePooling2D {
  Pair pool_size = {2, 2};
  std::string padding = "valid";
  std::optional<Pair> strides = {};
  std::string data_format = "channels_last";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "AveragePooling2D";
  static void fields(auto& field) {
    field("pool_size", &AveragePooling2D::pool_size);
    field("padding", &AveragePooling2D::padding);
    field("strides", &AveragePooling2D::strides);
    field("data_format", &AveragePooling2D::data_format);
  }
};
LayerPtr make_layer(const AveragePooling2D&);

// Mean over height and width.
struct GlobalAveragePooling2D {
  std::string data_format = "channels_last";
  bool keepdims = false;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "GlobalAveragePooling2D";
  static void fields(auto& field) {
    field("data_format", &GlobalAveragePooling2D::data_format);
    field("keepdims", &GlobalAveragePooling2D::keepdims);
  }
};
LayerPtr make_layer(const GlobalAveragePooling2D&);

// Maximum over height and width.
struct GlobalMaxPooling2D {
  std::string data_format = "channels_last";
  bool keepdims = false;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "GlobalMaxPooling2D";
  static void fields(auto& field) {
    field("data_format", &GlobalMaxPooling2D::data_format);
    field("keepdims", &GlobalMaxPooling2D::keepdims);
  }
};
LayerPtr make_layer(const GlobalMaxPooling2D&);

}  // namespace surefit
