// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/convert.hpp"

#include "engine/kernels/table.hpp"
#include "engine/kernels/vec_math.hpp"

namespace surefit::kernels::SUREFIT_ISA {
namespace {

using H8 = std::uint16_t __attribute__((vector_size(16)));

SUREFIT_INLINE U8 word_bits(V8 v) {
  U8 r;
  std::memcpy(&r, &v, sizeof r);
  return r;
}
SUREFIT_INLINE V8 from_words(U8 v) {
  V8 r;
  std::memcpy(&r, &v, sizeof r);
  return r;
}

#ifdef __F16C__
SUREFIT_INLINE H8 to_half(V8 v) {
  __m256 x;
  std::memcpy(&x, &v, sizeof x);
  const __m128i h = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  H8 r;
  std::memcpy(&r, &h, sizeof r);
  return r;
}
SUREFIT_INLINE V8 from_half(H8 v) {
  __m128i h;
  std::memcpy(&h, &v, sizeof h);
  const __m256 x = _mm256_cvtph_ps(h);
  V8 r;
  std::memcpy(&r, &x, sizeof r);
  return r;
}
#else
// Normal results: rebias the exponent and round the 13 dropped bits to even by an integer add (a
// carry walks into the exponent, up to Inf). Results below 2^-14: adding 1/2 as a float lets the
// FPU round at 2^-24.
SUREFIT_INLINE H8 to_half(V8 v) {
  const U8 b = word_bits(v), sign = (b >> 16) & 0x8000u, a = b & 0x7fffffffu;
  const U8 normal = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
  const U8 tiny = word_bits(from_words(a) + 0.5f) - 0x3f000000u;
  const U8 special = a > 0x7f800000u ? (((a >> 13) & 0x3ffu) | 0x7e00u) : U8{} + 0x7c00u;
  U8 h = a < 0x38800000u ? tiny : normal;
  h = a >= 0x47800000u
          ? special
          : h;  // 65536 and above, Inf and NaN; what lies between carried to Inf by itself
  return __builtin_convertvector(h | sign, H8);
}
SUREFIT_INLINE V8 from_half(H8 v) {
  const U8 h = __builtin_convertvector(v, U8), sign = (h & 0x8000u) << 16, a = h & 0x7fffu;
  const U8 normal = (a << 13) + 0x38000000u;
  // A subnormal half is a * 2^-24, exact in float.
  I8 integer;
  std::memcpy(&integer, &a, sizeof a);
  const U8 tiny = word_bits(__builtin_convertvector(integer, V8) * 0x1p-24f);
  const U8 special = a > 0x7c00u ? ((a << 13) | 0x7fc00000u) : U8{} + 0x7f800000u;
  U8 b = a < 0x0400u ? tiny : normal;
  b = a >= 0x7c00u ? special : b;
  return from_words(b | sign);
}
#endif

SUREFIT_INLINE H8 to_bfloat(V8 v) {
  const U8 b = word_bits(v);
  const U8 rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16, quiet = (b >> 16) | 0x40u;
  return __builtin_convertvector((b & 0x7fffffffu) > 0x7f800000u ? quiet : rounded, H8);
}
SUREFIT_INLINE V8 from_bfloat(H8 v) {
  return from_words(__builtin_convertvector(v, U8) << 16);
}

// First magnitudes that round to Inf: 65520 for half, 0x7f7f8000 for bfloat.
SUREFIT_INLINE I8 overflows(V8 v, std::uint32_t first) {
  const I8 a = bits(v) & 0x7fffffff;
  return (a >= static_cast<std::int32_t>(first)) & (a < 0x7f800000);
}

template <class F>
SUREFIT_INLINE bool narrow(const float* x, std::uint16_t* y, std::int64_t count,
                           std::uint32_t first, F f) {
  I8 lost{};
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    const V8 v = load(x + i);
    const H8 h = f(v);
    std::memcpy(y + i, &h, sizeof h);
    lost |= overflows(v, first);
  }
  if (i < count) {
    const V8 v = load_lanes(x + i, count - i);
    const H8 h = f(v);
    for (std::int64_t j = 0; i + j < count; ++j) y[i + j] = h[j];
    lost |= overflows(v, first);
  }
  std::int32_t any = 0;
  for (int j = 0; j < kBlock; ++j) any |= lost[j];
  return any != 0;
}

template <class F>
SUREFIT_INLINE void widen(const std::uint16_t* x, float* y, std::int64_t count, F f) {
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    H8 h;
    std::memcpy(&h, x + i, sizeof h);
    store(y + i, f(h));
  }
  if (i < count) {
    H8 h{};
    for (std::int64_t j = 0; i + j < count; ++j) h[j] = x[i + j];
    store_lanes(y + i, f(h), count - i);
  }
}

bool float_to_half(const float* x, std::uint16_t* y, std::int64_t count) {
  return narrow(
      x, y, count, 0x477ff000u, [](V8 v) __attribute__((always_inline)) { return to_half(v); });
}
void half_to_float(const std::uint16_t* x, float* y, std::int64_t count) {
  widen(
      x, y, count, [](H8 h) __attribute__((always_inline)) { return from_half(h); });
}
bool float_to_bfloat(const float* x, std::uint16_t* y, std::int64_t count) {
  return narrow(
      x, y, count, 0x7f7f8000u, [](V8 v) __attribute__((always_inline)) { return to_bfloat(v); });
}
void bfloat_to_float(const std::uint16_t* x, float* y, std::int64_t count) {
  widen(
      x, y, count, [](H8 h) __attribute__((always_inline)) { return from_bfloat(h); });
}

}  // namespace

void fill_convert(KernelTable& table) {
  table.convert = {float_to_half, half_to_float, float_to_bfloat, bfloat_to_float};
}

}  // namespace surefit::kernels::SUREFIT_ISA
