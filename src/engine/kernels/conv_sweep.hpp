// SPDX-License-Identifier: Apache-2.0
// Forward and backward-data as one: every output pixel of a row is a sum over taps of input pixels
// that move by `step` from one output pixel to the next. With a stride, backward-data has one such
// row per column class.
#pragma once

#include "engine/kernels/conv_shape.hpp"
#include "engine/kernels/vec.hpp"

namespace surefit::kernels::SUREFIT_ISA {

struct SweepShape {
  ConvShape s;
  bool back;
  int in_h, in_w, out_h, out_w;
  int classes, step;
};

SUREFIT_INLINE SweepShape sweep_shape(const ConvShape& s, bool back) {
  if (back) return {s, true, s.oh, s.ow, s.h, s.w, s.stride_w, 1};
  return {s, false, s.h, s.w, s.oh, s.ow, 1, s.stride_w};
}

struct TapList {
  SweepTap* taps;
  int count;
};

// The input row that kernel row `kh` reads for output row `row`; -1 where there is none.
SUREFIT_INLINE int row_under(const SweepShape& v, int row, int kh) {
  const ConvShape& s = v.s;
  int in_row = row * s.stride_h - s.pad_top + kh * s.dilation_h;
  if (v.back) {
    const int up = row + s.pad_top - kh * s.dilation_h;
    if (up < 0 || up % s.stride_h != 0) return -1;
    in_row = up / s.stride_h;
  }
  return in_row < v.in_h ? at_least(in_row, -1) : -1;
}

// The taps that reach output row `row`, columns of class `column_class`.
SUREFIT_INLINE TapList taps_of(const SweepShape& v, int row, int column_class, SweepTap* taps) {
  const ConvShape& s = v.s;
  int count = 0;
  for (int kh = 0; kh < s.kh; ++kh) {
    const int in_row = row_under(v, row, kh);
    if (in_row < 0) continue;
    for (int kw = 0; kw < s.kw; ++kw) {
      int column = kw * s.dilation_w - s.pad_left;
      if (v.back) {
        const int left = column_class - column;
        if (left % s.stride_w != 0) continue;
        column = left / s.stride_w;
      }
      taps[count++] = {(std::ptrdiff_t(in_row) * v.in_w + column) * 8, kh * s.kw + kw, in_row,
                       column};
    }
  }
  return {taps, count};
}

SUREFIT_INLINE bool inside(const SweepShape& v, const TapList& list, int first, int pixels) {
  for (int t = 0; t < list.count; ++t) {
    const int begin = list.taps[t].column + first * v.step;
    if (begin < 0 || begin + (pixels - 1) * v.step >= v.in_w) return false;
  }
  return true;
}

}  // namespace surefit::kernels::SUREFIT_ISA
