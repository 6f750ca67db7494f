// SPDX-License-Identifier: Apache-2.0
// What every layer spec has in common.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "surefit/config.hpp"

namespace surefit {

class LayerImpl;
using LayerPtr = std::shared_ptr<const LayerImpl>;

// Every spec ends with these: the layer's name (empty: chosen from the class, "conv2d", "conv2d_1",
// ...) and whether its parameters are trained.
#define SUREFIT_LAYER_COMMON \
  std::string name = {};     \
  bool trainable = true

}  // namespace surefit
