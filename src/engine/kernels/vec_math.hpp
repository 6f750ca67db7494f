// SPDX-License-Identifier: Apache-2.0
// Lane helpers and elementary functions on V8. Own polynomials instead of libm, so that the bits
// depend on the instruction set alone and not on the C library of the machine. NaN goes in, NaN
// comes out.
#pragma once

#include "engine/kernels/vec.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace surefit::kernels::SUREFIT_ISA {

using V4 = float __attribute__((vector_size(16)));
using D4 = double __attribute__((vector_size(32)));
using U8 = std::uint32_t __attribute__((vector_size(32)));

SUREFIT_INLINE I8 lane_index() {
  return I8{0, 1, 2, 3, 4, 5, 6, 7};
}
// The first `lanes` floats, zero in the others: a tail runs through the same code as a whole
// vector.
SUREFIT_INLINE V8 load_lanes(const float* p, std::int64_t lanes) {
#if defined(__AVX__)
  const I8 wanted = lane_index() < static_cast<std::int32_t>(lanes);
  return _mm256_maskload_ps(p, reinterpret_cast<__m256i>(wanted));
#else
  V8 v{};
  for (std::int64_t i = 0; i < lanes; ++i) v[i] = p[i];
  return v;
#endif
}
// Lane by lane: masked stores take longer where they are made of microcode.
SUREFIT_INLINE void store_lanes(float* p, V8 v, std::int64_t lanes) {
  for (std::int64_t i = 0; i < lanes; ++i) p[i] = v[i];
}
// The same where there may be eight or more.
SUREFIT_INLINE V8 load_some(const float* p, std::int64_t lanes) {
  return lanes >= kBlock ? load(p) : load_lanes(p, lanes);
}
SUREFIT_INLINE void store_some(float* p, V8 v, std::int64_t lanes) {
  if (lanes >= kBlock) {
    store(p, v);
  } else {
    store_lanes(p, v, lanes);
  }
}
SUREFIT_INLINE V8 keep_lanes(V8 v, std::int64_t lanes) {
  return lane_index() < static_cast<std::int32_t>(lanes) ? v : V8{};
}

SUREFIT_INLINE I8 bits(V8 v) {
  I8 r;
  std::memcpy(&r, &v, sizeof r);
  return r;
}
SUREFIT_INLINE V8 from_bits(I8 v) {
  V8 r;
  std::memcpy(&r, &v, sizeof r);
  return r;
}

// Fixed tree over the lanes: ((0+4)+(2+6)) + ((1+5)+(3+7)).
SUREFIT_INLINE float sum_lanes(V8 v) {
  const V4 four =
      __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
  const V4 two = four + __builtin_shufflevector(four, four, 2, 3, 2, 3);
  return two[0] + two[1];
}

SUREFIT_INLINE D4 low_double(V8 v) {
  return __builtin_convertvector(__builtin_shufflevector(v, v, 0, 1, 2, 3), D4);
}
SUREFIT_INLINE D4 high_double(V8 v) {
  return __builtin_convertvector(__builtin_shufflevector(v, v, 4, 5, 6, 7), D4);
}
SUREFIT_INLINE V8 to_float(D4 low, D4 high) {
  const V4 a = __builtin_convertvector(low, V4), b = __builtin_convertvector(high, V4);
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7);
}

// A size known at compile time, handed to generic lambdas.
template <int N>
struct Size {
  static constexpr int value = N;
};

SUREFIT_INLINE void transpose(V8 (&r)[8]) {
  V8 t[8], u[8];
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    t[2 * i + 1] = __builtin_shufflevector(r[2 * i], r[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const V8 a = t[4 * i + j], b = t[4 * i + 2 + j];
      u[4 * i + 2 * j] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
      u[4 * i + 2 * j + 1] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = __builtin_shufflevector(u[i], u[4 + i], 0, 1, 2, 3, 8, 9, 10, 11);
    r[4 + i] = __builtin_shufflevector(u[i], u[4 + i], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

// Writes past the caches; `p` aligned to 32 bytes. Follow the last one with stream_fence().
SUREFIT_INLINE void store_stream(float* p, V8 v) {
#if defined(__AVX__)
  __m256 x;
  std::memcpy(&x, &v, sizeof x);
  _mm256_stream_ps(p, x);
#elif defined(__SSE2__)
  __m128 x[2];
  std::memcpy(x, &v, sizeof v);
  _mm_stream_ps(p, x[0]);
  _mm_stream_ps(p + 4, x[1]);
#else
  store(p, v);
#endif
}
SUREFIT_INLINE void stream_fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// a * b + c with one rounding where the instruction set has FMA. Contraction alone leaves a * b + c
// * d to the compiler, which may fuse another product in a tail than in the loop before it; such
// sums say here which one.
SUREFIT_INLINE V8 madd(V8 a, V8 b, V8 c) {
#if defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}

// Next use far away: into L2, a line per call.
SUREFIT_INLINE void prefetch(const float* p) {
  __builtin_prefetch(p, 0, 2);
}

// IEEE square root on every instruction set.
SUREFIT_INLINE V8 sqrt(V8 v) {
#if defined(__AVX__)
  __m256 x;
  std::memcpy(&x, &v, sizeof x);
  x = _mm256_sqrt_ps(x);
  std::memcpy(&v, &x, sizeof v);
#elif defined(__SSE2__)
  __m128 x[2];
  std::memcpy(x, &v, sizeof v);
  x[0] = _mm_sqrt_ps(x[0]);
  x[1] = _mm_sqrt_ps(x[1]);
  std::memcpy(&v, x, sizeof v);
#else
  for (int i = 0; i < 8; ++i) v[i] = __builtin_sqrtf(v[i]);
#endif
  return v;
}

SUREFIT_INLINE V8 abs(V8 x) {
  return from_bits(bits(x) & 0x7fffffff);
}
SUREFIT_INLINE V8 copy_sign(V8 magnitude, V8 sign) {
  return from_bits((bits(magnitude) & 0x7fffffff) |
                   (bits(sign) & static_cast<std::int32_t>(0x80000000u)));
}

namespace detail {

struct Reduced {
  V8 r;  // |r| <= ln2/2
  I8 n;  // x = n ln2 + r
};

// Rounds by adding 1.5 * 2^23, whose low mantissa bits then hold n; ln2 in two parts, the first
// with 9 bits so that n * hi is exact without FMA too.
SUREFIT_INLINE Reduced reduce_ln2(V8 x) {
  constexpr float kMagic = 12582912.0f;
  const V8 shifted = x * 1.44269504f + kMagic;
  const V8 n = shifted - kMagic;
  V8 r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  return {r, bits(shifted) - 0x4b400000};
}

// (e^r - 1 - r) / r^2 for |r| <= ln2/2: Taylor to r^7, remainder below 6e-9 of e^r.
SUREFIT_INLINE V8 exp_tail(V8 r) {
  V8 p = r * 1.98412698e-4f + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  return p * r + 0.5f;
}

SUREFIT_INLINE V8 power_of_two(I8 n) {
  return from_bits((n + 127) << 23);
}

}  // namespace detail

// e^x, error at most 1 ulp where the result is normal; overflows to Inf, underflows through
// subnormals to 0.
SUREFIT_INLINE V8 exp(V8 x) {
  x = x < -105.0f ? splat(-105.0f) : x;
  x = x > 89.0f ? splat(89.0f) : x;
  const detail::Reduced a = detail::reduce_ln2(x);
  const V8 p = detail::exp_tail(a.r) * (a.r * a.r) + a.r + 1.0f;
  const I8 half =
      a.n >> 1;  // 2^n in two steps: n reaches -151 and 128, one exponent field does not
  return p * detail::power_of_two(half) * detail::power_of_two(a.n - half);
}

// e^x - 1 without cancellation near 0; error at most 2.5 ulp. For x <= 40 (callers clamp above).
SUREFIT_INLINE V8 expm1(V8 x) {
  x = x < -20.0f ? splat(-20.0f) : x;
  x = x > 40.0f ? splat(40.0f) : x;
  const detail::Reduced a = detail::reduce_ln2(x);
  const V8 p = detail::exp_tail(a.r) * (a.r * a.r) + a.r;
  const V8 scale = detail::power_of_two(a.n);
  return p * scale + (scale - 1.0f);
}

// tanh = t / (t + 2) with t = e^2|x| - 1; error at most 3 ulp.
SUREFIT_INLINE V8 tanh(V8 x) {
  const V8 t = expm1(2.0f * abs(x));
  return copy_sign(t / (t + 2.0f), x);
}

// 1 / (1 + e^-x), through e^-|x| so that small results do not vanish; error at most 3 ulp.
SUREFIT_INLINE V8 sigmoid(V8 x) {
  const V8 e = exp(-abs(x));
  return (x < 0.0f ? e : splat(1.0f)) / (1.0f + e);
}

// log(1 + e^x) = max(x, 0) + log1p(e^-|x|), log1p(t) = 2 atanh(t / (2 + t)) by its series, s^2 <=
// 1/9.
SUREFIT_INLINE V8 softplus(V8 x) {
  const V8 t = exp(-abs(x));
  const V8 s = t / (2.0f + t), s2 = s * s;
  V8 p = s2 * (2.0f / 17.0f) + (2.0f / 15.0f);
  p = p * s2 + (2.0f / 13.0f);
  p = p * s2 + (2.0f / 11.0f);
  p = p * s2 + (2.0f / 9.0f);
  p = p * s2 + (2.0f / 7.0f);
  p = p * s2 + (2.0f / 5.0f);
  p = p * s2 + (2.0f / 3.0f);
  return relu(x) + madd(p * s2, s, 2.0f * s);
}

// erf: odd polynomial below 1 (fit 4e-11), 1 - e^(-x^2) P(1 / (1 + x/2)) above (fit 3e-9 of 1);
// error at most 3 ulp.
SUREFIT_INLINE V8 erf(V8 x) {
  const V8 a = abs(x), s = x * x;
  V8 p = s * -9.673572336e-06f + 1.126824789e-04f;
  p = p * s + -8.484395788e-04f;
  p = p * s + 5.221053365e-03f;
  p = p * s + -2.686543830e-02f;
  p = p * s + 1.128378262e-01f;
  p = p * s + -3.761263848e-01f;
  p = p * s + 1.128379167e+00f;
  const V8 t = 1.0f / (1.0f + 0.5f * a);
  V8 q = t * -5.354061526e-02f + -5.733873784e-02f;
  q = q * t + 4.038383657e-01f;
  q = q * t + 1.012682429e-01f;
  q = q * t + 3.308406811e-01f;
  q = q * t + 2.736181533e-01f;
  q = q * t + 6.064087490e-04f;
  const V8 large = copy_sign(1.0f - exp(-s) * q, x);
  return a < 1.0f ? p * x : large;
}

// Natural logarithm in double for x > 0 (0 gives -Inf, negative and NaN give NaN). x = 2^e m with m
// in [sqrt(1/2), sqrt 2), log m = 2 atanh((m-1)/(m+1)), series to s^23: error below 1e-15 relative
// to max(|log x|, |s|).
SUREFIT_INLINE double log(double x) {
  if (!(x > 0.0)) return x == 0.0 ? -__builtin_inf() : __builtin_nan("");
  if (x == __builtin_inf()) return x;
  int exponent = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    exponent = -54;
  }
  std::uint64_t u;
  std::memcpy(&u, &x, sizeof u);
  exponent += static_cast<int>(u >> 52) - 1023;
  u = (u & 0xfffffffffffffULL) | 0x3ff0000000000000ULL;
  double m;
  std::memcpy(&m, &u, sizeof m);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double p = 2.0 / 23.0;
  for (int k = 21; k >= 1; k -= 2) p = p * s2 + 2.0 / k;
  return exponent * 0.69314718055994530942 + p * s;
}

// Runs f(vector, ...) over n floats of y = f(x...) with the tail through the same vector code, so
// that a range cut at any place gives the same bits. Outputs may alias inputs at the same index.
template <class F, class... In>
SUREFIT_INLINE void map(std::int64_t n, float* y, F f, const In*... x) {
  std::int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) store(y + i, f(load(x + i)...));
  if (i < n) store_lanes(y + i, f(load_lanes(x + i, n - i)...), n - i);
}

}  // namespace surefit::kernels::SUREFIT_ISA
