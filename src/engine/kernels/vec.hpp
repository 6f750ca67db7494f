// SPDX-License-Identifier: Apache-2.0
// Eight floats, the channel block of nChw8c. A compiler vector type: one AVX register where there
// is one, two SSE registers elsewhere, from the same source.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __AVX__
#include <immintrin.h>
#endif

#define SUREFIT_INLINE inline __attribute__((always_inline))

namespace surefit::kernels::SUREFIT_ISA {

inline constexpr int kBlock = 8;

// How many vectors a register tile may hold.
#ifdef __AVX512VL__
inline constexpr int kRegisters = 32;
#else
inline constexpr int kRegisters = 16;
#endif

using V8 = float __attribute__((vector_size(32)));
using I8 = std::int32_t __attribute__((vector_size(32)));
using B8 = std::uint8_t __attribute__((vector_size(8)));

SUREFIT_INLINE V8 load(const float* p) {
  V8 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
SUREFIT_INLINE void store(float* p, V8 v) {
  std::memcpy(p, &v, sizeof v);
}
SUREFIT_INLINE V8 splat(float x) {
  return V8{x, x, x, x, x, x, x, x};
}
SUREFIT_INLINE V8 max(V8 a, V8 b) {
  return a > b ? a : b;
}
SUREFIT_INLINE V8 min(V8 a, V8 b) {
  return a < b ? a : b;
}

// a * b + c, rounded once where the instruction set can. Which of two products that are added is
// rounded by itself must not be left to the compiler: it chooses anew wherever a function is
// inlined.
SUREFIT_INLINE V8 fused(V8 a, V8 b, V8 c) {
#ifdef __FMA__
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}
SUREFIT_INLINE V8 fused(float a, V8 b, V8 c) {
  return fused(splat(a), b, c);
}

// x <= 0 becomes +0 and NaN stays NaN: a diverged run must not look healthy after the next
// activation, and pooling before or after gives the same bits.
SUREFIT_INLINE V8 relu(V8 x) {
  return x <= 0.0f ? V8{} : x;
}

// Keeps a loaded vector in a register. Without it GCC folds the load into every FMA that uses it,
// and the load ports rather than the FMA units set the pace (62 instead of 80 GFLOP/s in Dense's
// row layout).
SUREFIT_INLINE V8 hold(V8 v) {
#if defined(__AVX512VL__)
  asm("" : "+v"(v));  // "x" stands for the first sixteen registers only
#elif defined(__AVX__)
  asm("" : "+x"(v));
#endif
  return v;
}

// Eight bytes and the numbers they stand for. Intrinsics, because g++ moves byte by byte.
SUREFIT_INLINE I8 load_bytes(const std::uint8_t* p) {
#ifdef __AVX2__
  return reinterpret_cast<I8>(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  B8 bytes;
  std::memcpy(&bytes, p, sizeof bytes);
  return __builtin_convertvector(bytes, I8);
#endif
}
// Numbers from 0 to 255.
SUREFIT_INLINE void store_bytes(std::uint8_t* p, I8 numbers) {
#ifdef __AVX2__
  const __m256i v = reinterpret_cast<__m256i>(numbers);
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
#else
  const B8 bytes = __builtin_convertvector(numbers, B8);
  std::memcpy(p, &bytes, sizeof bytes);
#endif
}

}  // namespace surefit::kernels::SUREFIT_ISA
