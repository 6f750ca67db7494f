// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "graph/op.hpp"

namespace surefit {

// Rounds every float to the nearest of a 16-bit format, so that storing it in 16 bits loses
// nothing. What overflows is an error that names `layer`.
std::shared_ptr<const Op> make_round_op(Half format, const std::string& layer);

}  // namespace surefit
