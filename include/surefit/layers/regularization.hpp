// SPDX-License-Identifier: Apache-2.0
// Noise in training; nothing in evaluation. Random numbers are a function of (seed, layer, step,
// sample): nothing is stored.
#pragma once

#include "surefit/layers/spec.hpp"

namespace surefit {

// Zeroes a share `rate` of the elements in training and scales the rest by 1 / (1 - rate). The mask
// is a function of (seed, layer, step, sample): nothing is stored.
struct Dropout {
  double rate = 0.5;
  std::optional<std::int64_t> seed = {};
  std::optional<std::vector<std::int64_t>> noise_shape = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Dropout";
  static void fields(auto& field) {
    field("rate", &Dropout::rate);
    field("seed", &Dropout::seed);
    field("noise_shape", &Dropout::noise_shape);
  }
};
LayerPtr make_layer(const Dropout&);

// Dropout of whole channels.
struct SpatialDropout2D {
  double rate = 0.5;
  std::optional<std::int64_t> seed = {};
  std::string data_format = "channels_last";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "SpatialDropout2D";
  static void fields(auto& field) {
    field("rate", &SpatialDropout2D::rate);
    field("seed", &SpatialDropout2D::seed);
    field("data_format", &SpatialDropout2D::data_format);
  }
};
LayerPtr make_layer(const SpatialDropout2D&);

// Adds normal noise in training.
struct GaussianNoise {
  double stddev = 1;
  std::optional<std::int64_t> seed = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "GaussianNoise";
  static void fields(auto& field) {
    field("stddev", &GaussianNoise::stddev);
    field("seed", &GaussianNoise::seed);
  }
};
LayerPtr make_layer(const GaussianNoise&);

}  // namespace surefit
