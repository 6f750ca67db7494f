// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/op.hpp"
#include "nn/layer.hpp"

namespace surefit {

// Inputs: row, kernel and, with `bias`, bias. The row may be a flattened blocked picture: the
// kernel's rows are then stored in that order, so nothing is moved.
std::shared_ptr<const Op> make_dense_op(std::int64_t units, bool bias);
std::shared_ptr<const Packing> dense_kernel_packing(const ValueType& input, std::int64_t units);

}  // namespace surefit
