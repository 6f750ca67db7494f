// SPDX-License-Identifier: Apache-2.0
// Normalization of single samples: layer and group normalization.
#pragma once

#include "graph/op.hpp"

namespace surefit {

// Element i of a plain sample belongs to statistics row(i) and, with scale and center, to parameter
// column(i).
struct SampleNorm {
  ValueType type;            // of input and output, plain
  std::int64_t rows = 1;     // statistics per sample
  std::int64_t columns = 1;  // gamma and beta
  std::int64_t channels =
      0;  // groups of channels: row = channel / (channels / rows); 0: row = i / columns
  double epsilon = 1e-3;
  bool scale = true, center = true;
};

// (x, [gamma], [beta]) -> y.
std::shared_ptr<const Op> make_sample_norm_op(const SampleNorm& norm);

}  // namespace surefit
