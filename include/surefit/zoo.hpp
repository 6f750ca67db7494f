// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "surefit/model.hpp"

namespace surefit {

struct ZooOptions {
  Shape input = {};          // (height, width, channels); empty: the model's usual one
  std::int64_t classes = 0;  // 0: the model's usual number
};

// A well-known architecture by name, ending in softmax (unet with one class: a sigmoid per pixel).
// Throws ConfigError listing the names.
Model zoo_model(const std::string& name, const ZooOptions& options = {});
std::vector<std::string> zoo_names();

}  // namespace surefit
