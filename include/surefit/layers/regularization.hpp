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
  static constexpr auto fields() {
    return std::tuple{SpecField{"rate", &Dropout::rate}, SpecField{"seed", &Dropout::seed},
                      SpecField{"noise_shape", &Dropout::noise_shape}};
  }
};
LayerPtr make_layer(const Dropout&);

}  // namespace surefit
