// SPDX-License-Identifier: Apache-2.0
// Pictures sampled at moved positions, each sample in its own way.
#pragma once

#include <functional>

#include "graph/op.hpp"

namespace surefit {

// Where output pixel (row, column) looks: matrix [a b c; d e f], source row = a row + b column + c.
struct Affine {
  double a = 1, b = 0, c = 0;
  double d = 0, e = 1, f = 0;
};

enum class Fill { kConstant, kReflect, kWrap, kNearest };

struct Warp {
  Shape input, output;  // (height, width, channels)
  Fill fill = Fill::kConstant;
  bool bilinear = true;
  float fill_value = 0;
  // The map of one sample of one step; a pure function.
  std::function<Affine(const StepContext& step, std::int64_t sample)> map;
};

std::shared_ptr<const Op> make_warp_op(const Warp& warp);

}  // namespace surefit
