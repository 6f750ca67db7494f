// SPDX-License-Identifier: Apache-2.0
// Pictures changed at random in training, each sample in its own way; random numbers are a function
// of (seed, layer, step, sample). Evaluation leaves them alone, except that RandomCrop cuts from
// the middle.
#pragma once

#include "surefit/layers/spec.hpp"

namespace surefit {

// Mirrors half of the pictures: mode "horizontal", "vertical" or "horizontal_and_vertical".
struct RandomFlip {
  std::string mode = "horizontal_and_vertical";
  std::optional<std::int64_t> seed = {};
  std::string data_format = "channels_last";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "RandomFlip";
  static void fields(auto& field) {
    field("mode", &RandomFlip::mode);
    field("seed", &RandomFlip::seed);
    field("data_format", &RandomFlip::data_format);
  }
};
LayerPtr make_layer(const RandomFlip&);

// A part of this size.
struct RandomCrop {
  int height = 0;
  int width = 0;
  std::optional<std::int64_t> seed = {};
  std::string data_format = "channels_last";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "RandomCrop";
  static void fields(auto& field) {
    field("height", &RandomCrop::height);
    field("width", &RandomCrop::width);
    field("seed", &RandomCrop::seed);
    field("data_format", &RandomCrop::data_format);
  }
};
LayerPtr make_layer(const RandomCrop&);

// Moves by shares of height and width, each between two numbers or their negative.
struct RandomTranslation {
  Interval height_factor = {0};
  Interval width_factor = {0};
  std::string fill_mode = "reflect";
  std::string interpolation = "bilinear";
  std::optional<std::int64_t> seed = {};
  double fill_value = 0;
  std::string data_format = "channels_last";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "RandomTranslation";
  static void fields(auto& field) {
    field("height_factor", &RandomTranslation::height_factor);
    field("width_factor", &RandomTranslation::width_factor);
    field("fill_mode", &RandomTranslation::fill_mode);
    field("interpolation", &RandomTranslation::interpolation);
    field("seed", &RandomTranslation::seed);
    field("fill_value", &RandomTranslation::fill_value);
    field("data_format", &RandomTranslation::data_format);
  }
};
LayerPtr make_layer(const RandomTranslation&);

// Turns around the middle by a share of a full turn.
struct RandomRotation {
  Interval factor = {0};
  std::string fill_mode = "reflect";
  std::string interpolation = "bilinear";
  std::optional<std::int64_t> seed = {};
  double fill_value = 0;
  std::string data_format = "channels_last";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "RandomRotation";
  static void fields(auto& field) {
    field("factor", &RandomRotation::factor);
    field("fill_mode", &RandomRotation::fill_mode);
    field("interpolation", &RandomRotation::interpolation);
    field("seed", &RandomRotation::seed);
    field("fill_value", &RandomRotation::fill_value);
    field("data_format", &RandomRotation::data_format);
  }
};
LayerPtr make_layer(const RandomRotation&);

}  // namespace surefit
