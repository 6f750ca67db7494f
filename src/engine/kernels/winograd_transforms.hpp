// SPDX-License-Identifier: Apache-2.0
// The one-dimensional transforms of F(4, 3) with interpolation points 0, 1, -1, 2, -2 and infinity,
// eight or sixteen channels at a time. B^T turns six inputs into six, A^T six products into four
// outputs, G three weights into six. Products by powers of two are exact; all others that are added
// to something say so (fused), because the same numbers are transformed in several places and must
// have the same bits in all of them.
#pragma once

#include "engine/kernels/vec16.hpp"

namespace surefit::kernels::SUREFIT_ISA {

// Two rows of B^T at a time: pairs share subexpressions. Pair 0 is rows 0 and 5, pair 1 rows 1 and
// 2, pair 2 rows 3 and 4.
template <int Pair, class V>
SUREFIT_INLINE void input_pair(const V (&d)[6], V& a, V& b) {
  if constexpr (Pair == 0) {
    a = 4.0F * d[0] + fused(-5.0F, d[2], d[4]);
    b = 4.0F * d[1] + fused(-5.0F, d[3], d[5]);
  } else {
    const V even = Pair == 1 ? d[4] - 4.0F * d[2] : d[4] - d[2];
    const V odd = Pair == 1 ? d[3] - 4.0F * d[1] : 2.0F * (d[3] - d[1]);
    a = even + odd;
    b = even - odd;
  }
}

// Two rows of A applied to four output gradients, in the same pairs.
template <int Pair, class V>
SUREFIT_INLINE void gradient_pair(const V (&y)[4], V& a, V& b) {
  if constexpr (Pair == 0) {
    a = y[0];
    b = y[3];
  } else {
    const V even = Pair == 1 ? y[0] + y[2] : y[0] + 4.0F * y[2];
    const V odd = Pair == 1 ? y[1] + y[3] : 2.0F * y[1] + 8.0F * y[3];
    a = even + odd;
    b = even - odd;
  }
}

// Row of the 6x6 window that a pair's first and second result belong to.
template <int Pair>
inline constexpr int kPairFirst = Pair == 0 ? 0 : 2 * Pair - 1;
template <int Pair>
inline constexpr int kPairSecond = Pair == 0 ? 5 : 2 * Pair;

template <class V>
SUREFIT_INLINE void input_all(const V (&d)[6], V (&out)[6]) {
  input_pair<0>(d, out[0], out[5]);
  input_pair<1>(d, out[1], out[2]);
  input_pair<2>(d, out[3], out[4]);
}

template <class V>
SUREFIT_INLINE void gradient_all(const V (&y)[4], V (&out)[6]) {
  gradient_pair<0>(y, out[0], out[5]);
  gradient_pair<1>(y, out[1], out[2]);
  gradient_pair<2>(y, out[3], out[4]);
}

template <class V>
SUREFIT_INLINE void output_all(const V (&m)[6], V (&out)[4]) {
  const V s12 = m[1] + m[2], d12 = m[1] - m[2];
  const V s34 = m[3] + m[4], d34 = m[3] - m[4];
  out[0] = m[0] + (s12 + s34);
  out[1] = d12 + 2.0F * d34;
  out[2] = s12 + 4.0F * s34;
  out[3] = m[5] + (d12 + 8.0F * d34);
}

template <class V>
SUREFIT_INLINE void weights_all(V a, V b, V c, V (&out)[6]) {
  const V s = a + c;
  const V q = fused(1.0F / 24.0F, a, (1.0F / 6.0F) * c);
  out[0] = 0.25F * a;
  out[1] = (-1.0F / 6.0F) * (s + b);
  out[2] = (-1.0F / 6.0F) * (s - b);
  out[3] = fused(1.0F / 12.0F, b, q);
  out[4] = fused(-1.0F / 12.0F, b, q);
  out[5] = c;
}

// G^T: the gradient of three weights from that of six transformed ones.
template <class V>
SUREFIT_INLINE void weights_gradient_all(const V (&u)[6], V (&out)[3]) {
  const V s12 = u[1] + u[2], d12 = u[1] - u[2];
  const V s34 = u[3] + u[4], d34 = u[3] - u[4];
  out[0] = 0.25F * u[0] + fused(1.0F / 24.0F, s34, (-1.0F / 6.0F) * s12);
  out[1] = fused(1.0F / 12.0F, d34, (-1.0F / 6.0F) * d12);
  out[2] = fused(1.0F / 6.0F, s34 - s12, u[5]);
}

// The 3x3 kernels of one or two blocks of output channels, `apart` floats apart, `tap` floats from
// one tap to the next, to 6x6, `element` floats from one element to the next, blocks side by side.
template <class V>
SUREFIT_INLINE void transform_kernel(const float* kernel, std::ptrdiff_t apart, std::ptrdiff_t tap,
                                     float* u, std::ptrdiff_t element) {
  V columns[3][6];
  for (int c = 0; c < 3; ++c) {
    weights_all(load_blocks<V>(kernel + c * tap, apart),
                load_blocks<V>(kernel + (3 + c) * tap, apart),
                load_blocks<V>(kernel + (6 + c) * tap, apart), columns[c]);
  }
  for (int r = 0; r < 6; ++r) {
    V row[6];
    weights_all(columns[0][r], columns[1][r], columns[2][r], row);
    for (int c = 0; c < 6; ++c) store_vector(u + (r * 6 + c) * element, row[c]);
  }
}

// And their gradient back.
template <class V>
SUREFIT_INLINE void transform_kernel_gradient(const float* du, std::ptrdiff_t element,
                                              float* gradient, std::ptrdiff_t apart,
                                              std::ptrdiff_t tap) {
  V columns[3][6];
  for (int c = 0; c < 6; ++c) {
    V u[6], out[3];
    unroll<6>([&](auto r) SUREFIT_LAMBDA { u[r] = load_vector<V>(du + (r * 6 + c) * element); });
    weights_gradient_all(u, out);
    unroll<3>([&](auto r) SUREFIT_LAMBDA { columns[r][c] = out[r]; });
  }
  for (int r = 0; r < 3; ++r) {
    V out[3];
    weights_gradient_all(columns[r], out);
    unroll<3>([&](auto c)
                  SUREFIT_LAMBDA { store_blocks(gradient + (r * 3 + c) * tap, apart, out[c]); });
  }
}

// A window of pixels of one channel block, or two, that lies within the picture.
struct InnerWindow {
  const float* origin;
  std::ptrdiff_t row, plane;  // floats

  template <class V>
  SUREFIT_INLINE V at(int i, int j) const {
    return load_blocks<V>(origin + i * row + j * 8, plane);
  }
};

// One that reaches over the picture's edge, where it is zero. Pictures of a few tiles have no other
// windows, so this is no rare case.
template <int Size>
struct EdgeWindow {
  alignas(32) static constexpr float kZeros[8] = {};

  const float* rows[Size];       // kZeros outside
  std::ptrdiff_t moves[Size];    // by row: all bits, or none where columns must not move in it
  std::ptrdiff_t columns[Size];  // floats from the row's beginning
  I8 inside[Size];               // by column: all bits or none
  std::ptrdiff_t plane;          // floats

  SUREFIT_INLINE EdgeWindow(const float* first_plane, int h, int w, int top, int left)
      : plane(std::ptrdiff_t(h) * w * 8) {
    for (int i = 0; i < Size; ++i) {
      const int y = top + i, x = left + i;
      const bool row_inside = y >= 0 && y < h, column_inside = x >= 0 && x < w;
      rows[i] = row_inside ? first_plane + std::ptrdiff_t(y) * w * 8 : kZeros;
      moves[i] = row_inside ? -1 : 0;
      columns[i] = column_inside ? std::ptrdiff_t(x) * 8 : 0;
      inside[i] = I8{} - (column_inside ? 1 : 0);
    }
  }
  template <class V>
  SUREFIT_INLINE V at(int i, int j) const {
    const V8 first = pixel(i, j, 0);
    if constexpr (sizeof(V) == sizeof(V8)) {
      return first;
    } else {
      return join(first, pixel(i, j, plane));
    }
  }

 private:
  SUREFIT_INLINE V8 pixel(int i, int j, std::ptrdiff_t shift) const {
    const V8 any = load(rows[i] + ((columns[j] + shift) & moves[i]));
    return reinterpret_cast<V8>(reinterpret_cast<I8>(any) & inside[j]);
  }
};

// Calls f with the Size x Size window whose upper left pixel is (top, left), of the block at
// `plane` and the one behind it.
template <int Size, class F>
SUREFIT_INLINE void with_window(const float* plane, int h, int w, int top, int left, F f) {
  if (top >= 0 && left >= 0 && top + Size <= h && left + Size <= w) {
    f(InnerWindow{plane + (std::ptrdiff_t(top) * w + left) * 8, std::ptrdiff_t(w) * 8,
                  std::ptrdiff_t(h) * w * 8});
  } else {
    f(EdgeWindow<Size>(plane, h, w, top, left));
  }
}

}  // namespace surefit::kernels::SUREFIT_ISA
