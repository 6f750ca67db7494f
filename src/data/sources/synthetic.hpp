// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "surefit/data.hpp"

#include "interop/idx.hpp"

namespace surefit::data {

// "HxWxC,CLASSES,COUNT": pictures of noise around a pattern of their class, float32 in 0 ... 1, and
// int32 labels. With `masks` the label is a picture of classes: each pixel is its brightness cut
// into equal parts. Learnable, and the same on every machine. Throws ConfigError.
Dataset make_synthetic(const std::string& text, Split split, bool masks = false);

}  // namespace surefit::data
