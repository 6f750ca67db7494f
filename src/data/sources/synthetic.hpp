// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "surefit/data.hpp"

#include "interop/idx.hpp"

namespace surefit::data {

// What the label of a made-up picture is: its class, or a picture of classes in which each pixel is
// its brightness cut into equal parts.
enum class SyntheticLabels { kClass, kMask };

// "HxWxC,CLASSES,COUNT": pictures of noise around a pattern of their class, float32 in 0 ... 1, and
// int32 labels. Learnable, and the same on every machine. Throws ConfigError.
Dataset make_synthetic(const std::string& text, Split split, SyntheticLabels labels);

}  // namespace surefit::data
