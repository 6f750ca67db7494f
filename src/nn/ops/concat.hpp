// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/op.hpp"

namespace surefit {

// Values of these shapes side by side along `axis` (of one sample, from 0). Channels of pictures
// are joined in the blocked layout, everything else in the plain one.
std::shared_ptr<const Op> make_concat_op(std::vector<Shape> shapes, std::size_t axis);

}  // namespace surefit
