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
  bool renorm = false;  // not there yet: refused
  double renorm_momentum = 0.99;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "BatchNormalization";
  static void fields(auto& field) {
    field("axis", &BatchNormalization::axis);
    field("momentum", &BatchNormalization::momentum);
    field("epsilon", &BatchNormalization::epsilon);
    field("center", &BatchNormalization::center);
    field("scale", &BatchNormalization::scale);
    field("beta_initializer", &BatchNormalization::beta_initializer);
    field("gamma_initializer", &BatchNormalization::gamma_initializer);
    field("moving_mean_initializer", &BatchNormalization::moving_mean_initializer);
    field("moving_variance_initializer", &BatchNormalization::moving_variance_initializer);
    field("beta_regularizer", &BatchNormalization::beta_regularizer);
    field("gamma_regularizer", &BatchNormalization::gamma_regularizer);
    field("beta_constraint", &BatchNormalization::beta_constraint);
    field("gamma_constraint", &BatchNormalization::gamma_constraint);
    field("synchronized", &BatchNormalization::synchronized);
    field("renorm", &BatchNormalization::renorm);
    field("renorm_momentum", &BatchNormalization::renorm_momentum);
  }
};
LayerPtr make_layer(const BatchNormalization&);

// Normalises each sample over the last axes, which `axis` lists. (Ba et al. 2016)
struct LayerNormalization {
  Axes axis = {-1};
  double epsilon = 1e-3;
  bool center = true;
  bool scale = true;
  bool rms_scaling = false;  // not there yet: refused
  Object beta_initializer = {"Zeros"};
  Object gamma_initializer = {"Ones"};
  std::optional<Object> beta_regularizer = {};
  std::optional<Object> gamma_regularizer = {};
  std::optional<Object> beta_constraint = {};
  std::optional<Object> gamma_constraint = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "LayerNormalization";
  static void fields(auto& field) {
    field("axis", &LayerNormalization::axis);
    field("epsilon", &LayerNormalization::epsilon);
    field("center", &LayerNormalization::center);
    field("scale", &LayerNormalization::scale);
    field("rms_scaling", &LayerNormalization::rms_scaling);
    field("beta_initializer", &LayerNormalization::beta_initializer);
    field("gamma_initializer", &LayerNormalization::gamma_initializer);
    field("beta_regularizer", &LayerNormalization::beta_regularizer);
    field("gamma_regularizer", &LayerNormalization::gamma_regularizer);
    field("beta_constraint", &LayerNormalization::beta_constraint);
    field("gamma_constraint", &LayerNormalization::gamma_constraint);
  }
};
LayerPtr make_layer(const LayerNormalization&);

// Normalises each sample over its pixels and groups of channels; -1 groups: each channel by itself.
// (Wu and He 2018)
struct GroupNormalization {
  int groups = 32;
  int axis = -1;
  double epsilon = 1e-3;
  bool center = true;
  bool scale = true;
  Object beta_initializer = {"Zeros"};
  Object gamma_initializer = {"Ones"};
  std::optional<Object> beta_regularizer = {};
  std::optional<Object> gamma_regularizer = {};
  std::optional<Object> beta_constraint = {};
  std::optional<Object> gamma_constraint = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "GroupNormalization";
  static void fields(auto& field) {
    field("groups", &GroupNormalization::groups);
    field("axis", &GroupNormalization::axis);
    field("epsilon", &GroupNormalization::epsilon);
    field("center", &GroupNormalization::center);
    field("scale", &GroupNormalization::scale);
    field("beta_initializer", &GroupNormalization::beta_initializer);
    field("gamma_initializer", &GroupNormalization::gamma_initializer);
    field("beta_regularizer", &GroupNormalization::beta_regularizer);
    field("gamma_regularizer", &GroupNormalization::gamma_regularizer);
    field("beta_constraint", &GroupNormalization::beta_constraint);
    field("gamma_constraint", &GroupNormalization::gamma_constraint);
  }
};
LayerPtr make_layer(const GroupNormalization&);

// x * scale + offset; one number each, or one for each channel.
struct Rescaling {
  Numbers scale = 1.0;
  Numbers offset = 0.0;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Rescaling";
  static void fields(auto& field) {
    field("scale", &Rescaling::scale);
    field("offset", &Rescaling::offset);
  }
};
LayerPtr make_layer(const Rescaling&);

// (x - mean) / sqrt(variance) per channel. Without numbers here, mean and variance are parameters
// that are not trained.
struct Normalization {
  Axes axis = {-1};
  Numbers mean = {};
  Numbers variance = {};
  bool invert = false;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Normalization";
  static void fields(auto& field) {
    field("axis", &Normalization::axis);
    field("mean", &Normalization::mean);
    field("variance", &Normalization::variance);
    field("invert", &Normalization::invert);
  }
};
LayerPtr make_layer(const Normalization&);

}  // namespace surefit
