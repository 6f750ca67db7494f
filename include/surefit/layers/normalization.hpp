// SPDX-License-Identifier: Apache-2.0
// Normalization by statistics.
#pragma once

#include "surefit/layers/spec.hpp"

namespace surefit {

// Normalises each channel by its statistics over the whole logical batch, exactly, whatever the
// memory budget: y = gamma (x - mean) / sqrt(variance + epsilon) + beta. (Ioffe and Szegedy 2015)
struct BatchNormalization {
  int axis = -1;
  double momentum = 0.99;
  double epsilon = 1e-3;
  bool center = true;
  bool scale = true;
  Object beta_initializer = {"Zeros"};
  Object gamma_initializer = {"Ones"};
  Object moving_mean_initializer = {"Zeros"};
  Object moving_variance_initializer = {"Ones"};
  std::optional<Object> beta_regularizer = {}, gamma_regularizer = {}, beta_constraint = {},
                        gamma_constraint = {};
  bool synchronized = false;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "BatchNormalization";
  static constexpr auto fields() {
    return std::tuple{
        SpecField{"axis", &BatchNormalization::axis},
        SpecField{"momentum", &BatchNormalization::momentum},
        SpecField{"epsilon", &BatchNormalization::epsilon},
        SpecField{"center", &BatchNormalization::center},
        SpecField{"scale", &BatchNormalization::scale},
        SpecField{"beta_initializer", &BatchNormalization::beta_initializer},
        SpecField{"gamma_initializer", &BatchNormalization::gamma_initializer},
        SpecField{"moving_mean_initializer", &BatchNormalization::moving_mean_initializer},
        SpecField{"moving_variance_initializer", &BatchNormalization::moving_variance_initializer},
        SpecField{"beta_regularizer", &BatchNormalization::beta_regularizer},
        SpecField{"gamma_regularizer", &BatchNormalization::gamma_regularizer},
        SpecField{"beta_constraint", &BatchNormalization::beta_constraint},
        SpecField{"gamma_constraint", &BatchNormalization::gamma_constraint},
        SpecField{"synchronized", &BatchNormalization::synchronized}};
  }
};
LayerPtr make_layer(const BatchNormalization&);

}  // namespace surefit
