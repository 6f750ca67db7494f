// SPDX-License-Identifier: Apache-2.0
// What layer and group normalization share.
#pragma once

#include <algorithm>
#include <fmt/format.h>

#include "nn/layers/common.hpp"
#include "nn/ops/sample_norm.hpp"

namespace surefit {

template <typename Spec>
void check_sample_normalization(const Spec& spec) {
  if (!(spec.epsilon > 0))
    throw ConfigError(fmt::format("[{}] epsilon must be positive", Spec::kClass));
  check_regularizer(spec.beta_regularizer);
  check_regularizer(spec.gamma_regularizer);
  check_constraint(spec.beta_constraint);
  check_constraint(spec.gamma_constraint);
}

template <typename Spec>
ValueId emit_sample_norm(LayerBuilder& builder, const Spec& spec, SampleNorm norm,
                         const Shape& parameters, ValueId input) {
  norm.epsilon = spec.epsilon;
  norm.scale = spec.scale;
  norm.center = spec.center;
  std::vector<ValueId> operands = {input};
  if (spec.scale) {
    operands.push_back(builder.parameter({.name = "gamma",
                                          .shape = parameters,
                                          .initializer = spec.gamma_initializer,
                                          .regularizer = spec.gamma_regularizer,
                                          .constraint = spec.gamma_constraint}));
  }
  if (spec.center) {
    operands.push_back(builder.parameter({.name = "beta",
                                          .shape = parameters,
                                          .initializer = spec.beta_initializer,
                                          .regularizer = spec.beta_regularizer,
                                          .constraint = spec.beta_constraint}));
  }
  return builder.emit(make_sample_norm_op(norm), std::move(operands))[0];
}

}  // namespace surefit
