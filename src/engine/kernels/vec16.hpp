// SPDX-License-Identifier: Apache-2.0
// Sixteen floats, two channel blocks or a group of output channels in Winograd's products: one
// AVX-512 register, or two of eight floats. Either way every float is multiplied and added by
// itself, so the bits are the same.
#pragma once

#include <cstddef>

#include "engine/kernels/unroll.hpp"
#include "engine/kernels/vec_math.hpp"

namespace surefit::kernels::SUREFIT_ISA {

// A product's tile: so many rows by so many groups of sixteen columns, whose sums stay in
// registers. Two groups where there is room: a row's float is then fetched once for two
// multiply-adds, which two loads a cycle could not feed otherwise.
inline constexpr int kProductTile = kRegisters == 32 ? 12 : 6;
inline constexpr int kProductGroups = kRegisters == 32 ? 2 : 1;

// Whether sixteen floats are one register.
#ifdef __AVX512F__
inline constexpr bool kWide = true;
#else
inline constexpr bool kWide = false;
#endif

#ifdef __AVX512F__
using V16 = float __attribute__((vector_size(64)));
SUREFIT_INLINE V16 load16(const float* p) {
  V16 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
SUREFIT_INLINE void store16(float* p, V16 v) {
  std::memcpy(p, &v, sizeof v);
}
// Two blocks that lie apart, and back.
SUREFIT_INLINE V16 join(V8 low, V8 high) {
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
SUREFIT_INLINE V8 low_half(V16 v) {
  return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
}
SUREFIT_INLINE V8 high_half(V16 v) {
  return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
}
SUREFIT_INLINE V16 fused(V16 a, V16 b, V16 c) {
  return reinterpret_cast<V16>(_mm512_fmadd_ps(
      reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
}
SUREFIT_INLINE V16 fused(float a, V16 b, V16 c) {
  return fused(reinterpret_cast<V16>(_mm512_set1_ps(a)), b, c);
}
SUREFIT_INLINE V16 relu(V16 x) {
  return x <= 0.0f ? V16{} : x;
}
SUREFIT_INLINE V16 splat16(float x) {
  return reinterpret_cast<V16>(_mm512_set1_ps(x));
}
SUREFIT_INLINE V16 sqrt(V16 x) {
  // GCC 12 takes the plain intrinsic's unused operand for a mistake.
  return reinterpret_cast<V16>(
      _mm512_maskz_sqrt_ps(__mmask16{0xffff}, reinterpret_cast<__m512>(x)));
}
SUREFIT_INLINE void multiply_add(V16& sum, V16 x, V16 y) {
  sum += x * y;
}
SUREFIT_INLINE V16 hold(V16 v) {
  asm("" : "+v"(v));
  return v;
}
#else
struct V16 {
  V8 low, high;
};
SUREFIT_INLINE V16 load16(const float* p) {
  return {load(p), load(p + 8)};
}
SUREFIT_INLINE void store16(float* p, V16 v) {
  store(p, v.low);
  store(p + 8, v.high);
}
SUREFIT_INLINE V16 join(V8 low, V8 high) {
  return {low, high};
}
SUREFIT_INLINE V8 low_half(V16 v) {
  return v.low;
}
SUREFIT_INLINE V8 high_half(V16 v) {
  return v.high;
}
SUREFIT_INLINE V16 operator+(V16 a, V16 b) {
  return {a.low + b.low, a.high + b.high};
}
SUREFIT_INLINE V16 splat16(float x) {
  const V8 v = splat(x);
  return {v, v};
}
SUREFIT_INLINE void multiply_add(V16& sum, V16 x, V16 y) {
  sum.low += x.low * y.low;
  sum.high += x.high * y.high;
}
SUREFIT_INLINE V16 hold(V16 v) {
  return {hold(v.low), hold(v.high)};
}
#endif

// Calls f(V8{} or V16{}, block) for channel blocks [begin, end): two of them at once where that is
// one register.
template <class F>
SUREFIT_INLINE void for_blocks(int begin, int end, F f) {
  int block = begin;
#ifdef __AVX512F__
  for (; block + 2 <= end; block += 2) f(V16{}, block);
#endif
  for (; block < end; ++block) f(V8{}, block);
}

// One block, or two that lie `apart` floats apart.
template <class V>
SUREFIT_INLINE V load_blocks(const float* p, std::ptrdiff_t apart) {
  if constexpr (sizeof(V) == sizeof(V8)) {
    return load(p);
  } else {
    return join(load(p), load(p + apart));
  }
}
template <class V>
SUREFIT_INLINE void store_blocks(float* p, std::ptrdiff_t apart, V v) {
  if constexpr (sizeof(V) == sizeof(V8)) {
    store(p, v);
  } else {
    store(p, low_half(v));
    store(p + apart, high_half(v));
  }
}
// The same where they lie side by side.
template <class V>
SUREFIT_INLINE V load_vector(const float* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class V>
SUREFIT_INLINE void store_vector(float* p, V v) {
  std::memcpy(p, &v, sizeof v);
}

// Eight rows of eight floats, or of two blocks that lie `apart` floats apart: each becomes a column
// of its block.
SUREFIT_INLINE void load_transposed(const float* p, std::ptrdiff_t, V8 (&columns)[8]) {
  for (int i = 0; i < 8; ++i) columns[i] = load(p + i * 8);
  transpose(columns);
}
#ifdef __AVX512F__
// Halves of rows change places as they are loaded, what is left is four by four within each quad.
SUREFIT_INLINE void load_transposed(const float* p, std::ptrdiff_t apart, V16 (&columns)[8]) {
  const auto half_rows = [](const float* row) SUREFIT_LAMBDA {
    V4 upper, lower;
    std::memcpy(&upper, row, sizeof upper);
    std::memcpy(&lower, row + 4 * 8, sizeof lower);
    return __builtin_shufflevector(upper, lower, 0, 1, 2, 3, 4, 5, 6, 7);
  };
  for (int c = 0; c < 8; c += 4) {
    V16 r[4], pairs[4];
    for (int i = 0; i < 4; ++i) {
      const float* row = p + i * 8 + c;
      r[i] = join(half_rows(row), half_rows(row + apart));
    }
    for (int i = 0; i < 2; ++i) {
      const V16 a = r[2 * i], b = r[2 * i + 1];
      pairs[i] =
          __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
      pairs[2 + i] =
          __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    }
    for (int i = 0; i < 2; ++i) {
      const V16 a = pairs[2 * i], b = pairs[2 * i + 1];
      columns[c + 2 * i] =
          __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
      columns[c + 2 * i + 1] =
          __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    }
  }
}
#endif

}  // namespace surefit::kernels::SUREFIT_ISA
