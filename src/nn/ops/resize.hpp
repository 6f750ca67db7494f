// SPDX-License-Identifier: Apache-2.0
// Nodes that move pixels about.
#pragma once

#include "surefit/config.hpp"

#include "graph/op.hpp"

namespace surefit {

// Zeros around a picture of either layout. A convolution behind takes them over where it can;
// `outer_picture`: the picture comes from outside, so nobody will ever want its gradient.
std::shared_ptr<const Op> make_pad_op(const Sides& pad, bool outer_picture);
// Pixels off the sides of a picture of either layout.
std::shared_ptr<const Op> make_crop_op(const ValueType& picture, const Sides& crop);

std::shared_ptr<const Op> make_upsample_op(const Shape& picture, const Pair& factor, bool bilinear);

}  // namespace surefit
