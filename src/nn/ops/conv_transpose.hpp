// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nn/ops/conv.hpp"

namespace surefit {

// Emits the transpose of the convolution `shape`: from its output (oh, ow, oc) to its input (h, w,
// ic). Forward is that convolution's backward pass and the other way round. `kernel` is packed as
// the convolution's; `bias` may be kNone.
ValueId emit_conv_transpose(LayerBuilder& builder, const kernels::ConvShape& shape,
                            ConvAlgorithm algorithm, ValueId picture, ValueId kernel, ValueId bias);

}  // namespace surefit
