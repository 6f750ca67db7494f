// SPDX-License-Identifier: Apache-2.0
// Larger and smaller pictures without arithmetic on their channels.
#pragma once

#include "surefit/layers/spec.hpp"

namespace surefit {

// Each pixel becomes size[0] x size[1] pixels: copies ("nearest"), or "bilinear" with half-pixel
// centres.
struct UpSampling2D {
  Pair size = {2, 2};
  std::string data_format = "channels_last";
  std::string interpolation = "nearest";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "UpSampling2D";
  static void fields(auto& field) {
    field("size", &UpSampling2D::size);
    field("data_format", &UpSampling2D::data_format);
    field("interpolation", &UpSampling2D::interpolation);
  }
};
LayerPtr make_layer(const UpSampling2D&);

// Zeros around the picture.
struct ZeroPadding2D {
  Sides padding = {1};
  std::string data_format = "channels_last";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "ZeroPadding2D";
  static void fields(auto& field) {
    field("padding", &ZeroPadding2D::padding);
    field("data_format", &ZeroPadding2D::data_format);
  }
};
LayerPtr make_layer(const ZeroPadding2D&);

// Cuts pixels off the sides.
struct Cropping2D {
  Sides cropping = {0};
  std::string data_format = "channels_last";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Cropping2D";
  static void fields(auto& field) {
    field("cropping", &Cropping2D::cropping);
    field("data_format", &Cropping2D::data_format);
  }
};
LayerPtr make_layer(const Cropping2D&);

}  // namespace surefit
