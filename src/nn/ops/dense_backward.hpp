// SPDX-License-Identifier: Apache-2.0
// The gradients of a Dense layer.
#pragma once

#include "engine/kernels/dense.hpp"
#include "graph/op.hpp"

namespace surefit {

// Inputs: x, dy, kernel. Outputs: the gradients of kernel, x and, with `bias`, bias. For layers
// that are cut along their inputs (in_parts).
std::shared_ptr<const Op> make_dense_backward_op(const kernels::DenseShape& shape, bool bias,
                                                 const ValueType& input);
// Inputs: x, dy. Outputs: the gradients of the kernel and, with `bias`, the bias.
std::shared_ptr<const Op> make_dense_backward_weights_op(const kernels::DenseShape& shape,
                                                         bool bias);
// Inputs: dy, kernel. Output: the gradient of x.
std::shared_ptr<const Op> make_dense_backward_data_op(const kernels::DenseShape& shape,
                                                      const ValueType& input);

}  // namespace surefit
