// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/noise.hpp"

#include "engine/kernels/table.hpp"
#include "engine/kernels/vec_math.hpp"

namespace surefit::kernels::SUREFIT_ISA {
namespace {

using Q4 = std::uint64_t __attribute__((vector_size(32)));

// Products of the low 32 bits of each lane.
SUREFIT_INLINE Q4 multiply_low(Q4 a, Q4 b) {
#if defined(__AVX2__)
  __m256i x, y;
  std::memcpy(&x, &a, sizeof x);
  std::memcpy(&y, &b, sizeof y);
  x = _mm256_mul_epu32(x, y);
  std::memcpy(&a, &x, sizeof a);
  return a;
#elif defined(__SSE2__)
  __m128i x[2], y[2];
  std::memcpy(x, &a, sizeof a);
  std::memcpy(y, &b, sizeof b);
  x[0] = _mm_mul_epu32(x[0], y[0]);
  x[1] = _mm_mul_epu32(x[1], y[1]);
  std::memcpy(&a, x, sizeof a);
  return a;
#else
  return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

SUREFIT_INLINE Q4 splat_word(std::uint64_t x) {
  return Q4{x, x, x, x};
}

struct Words {
  U8 v[2];  // sixteen words in element order
};

// Four blocks at once, one per 64-bit lane. Only the low 32 bits of a lane count; the multiply
// ignores what gathers above them, so nothing is masked inside the rounds.
SUREFIT_INLINE Words sixteen_words(const PhiloxStream& s, std::uint64_t block) {
  const Q4 index = splat_word(block) + Q4{0, 1, 2, 3};
  Q4 c0 = index, c1 = index >> 32, c2 = splat_word(s.high0), c3 = splat_word(s.high1);
  std::uint32_t key0 = s.key0, key1 = s.key1;
  for (int round = 0; round < 10; ++round) {
    const Q4 p0 = multiply_low(c0, splat_word(0xD2511F53u)),
             p1 = multiply_low(c2, splat_word(0xCD9E8D57u));
    c0 = (p1 >> 32) ^ c1 ^ splat_word(key0);
    c2 = (p0 >> 32) ^ c3 ^ splat_word(key1);
    c1 = p1;
    c3 = p0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  const Q4 low = (c0 & 0xffffffffu) | (c1 << 32), high = (c2 & 0xffffffffu) | (c3 << 32);
  const Q4 first = __builtin_shufflevector(low, high, 0, 4, 1, 5);
  const Q4 second = __builtin_shufflevector(low, high, 2, 6, 3, 7);
  Words w;
  std::memcpy(&w.v[0], &first, sizeof first);
  std::memcpy(&w.v[1], &second, sizeof second);
  return w;
}

// Calls f(words of 8 elements, first element, lanes begin..end inside them) over the range.
template <class F>
SUREFIT_INLINE void for_words(const PhiloxStream& s, std::int64_t begin, std::int64_t end, F f) {
  for (std::int64_t group = begin / 16 * 16; group < end; group += 16) {
    const Words w = sixteen_words(s, static_cast<std::uint64_t>(group) / 4);
    for (int half = 0; half < 2; ++half) {
      const std::int64_t at = group + half * kBlock;
      const std::int64_t from = begin > at ? begin - at : 0,
                         to = end - at < kBlock ? end - at : kBlock;
      if (from < to) f(w.v[half], at, from, to);
    }
  }
}

void words(const PhiloxStream& s, std::int64_t begin, std::int64_t end, std::uint32_t* out) {
  for_words(s, begin, end, [&](U8 w, std::int64_t at, std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) out[at + i - begin] = w[i];
  });
}

// y = f(x, words) with whole vectors inside and lane by lane at the ends of the range.
template <class F>
SUREFIT_INLINE void map_words(const PhiloxStream& s, const float* src, float* dst,
                              std::int64_t begin, std::int64_t end, F f) {
  for_words(s, begin, end, [&](U8 w, std::int64_t at, std::int64_t from, std::int64_t to) {
    if (to - from == kBlock) {
      store(dst + at, f(load(src + at), w));
    } else {
      V8 x{};
      for (std::int64_t i = from; i < to; ++i) x[i] = src[at + i];
      const V8 y = f(x, w);
      for (std::int64_t i = from; i < to; ++i) dst[at + i] = y[i];
    }
  });
}

void dropout(const DropoutArgs& a) {
  const float scale = a.scale;
  const std::uint32_t threshold = a.threshold;
  map_words(
      a.stream, a.src, a.dst, a.begin, a.end, [=](V8 x, U8 w) __attribute__((always_inline)) {
        return w >= threshold ? x * scale : V8{};
      });
}

// ln x for normal x in (0, 1]; error a few 1e-8 relative, which is all a random number needs.
SUREFIT_INLINE V8 log_unit(V8 x) {
  const I8 b = bits(x);
  I8 exponent = (b >> 23) - 127;
  V8 m = from_bits((b & 0x007fffff) | 0x3f800000);
  const I8 big = m > 1.41421356f;
  m = big ? m * 0.5f : m;
  exponent -= big;  // true is -1
  const V8 s = (m - 1.0f) / (m + 1.0f), s2 = s * s;
  V8 p = s2 * (2.0f / 9.0f) + (2.0f / 7.0f);
  p = p * s2 + (2.0f / 5.0f);
  p = p * s2 + (2.0f / 3.0f);
  p = p * s2 + 2.0f;
  return madd(p, s, __builtin_convertvector(exponent, V8) * 0.69314718f);
}

// cos(2 pi t) = 1 - 2 sin^2(pi t) for |t| <= 1/2, sin by Taylor to x^13 (remainder below 1e-9).
SUREFIT_INLINE V8 cos_turn(V8 t) {
  const V8 x = t * 3.14159265f, x2 = x * x;
  V8 p = x2 * 1.60590438e-10f + -2.50521084e-8f;
  p = p * x2 + 2.75573192e-6f;
  p = p * x2 + -1.98412698e-4f;
  p = p * x2 + 8.33333333e-3f;
  p = p * x2 + -1.66666667e-1f;
  const V8 s = p * x2 * x + x;
  return 1.0f - 2.0f * s * s;
}

// Elements 2i, 2i + 1: radius from word 2i, angle from word 2i + 1; cosine for the first, sine for
// the second.
SUREFIT_INLINE V8 normal(U8 w) {
  const U8 first = __builtin_shufflevector(w, w, 0, 0, 2, 2, 4, 4, 6, 6);
  const U8 second = __builtin_shufflevector(w, w, 1, 1, 3, 3, 5, 5, 7, 7);
  I8 radius_bits, angle_bits;
  const U8 shifted = first >> 8, turned = second >> 8;
  std::memcpy(&radius_bits, &shifted, sizeof shifted);
  std::memcpy(&angle_bits, &turned, sizeof turned);
  const V8 u = (__builtin_convertvector(radius_bits, V8) + 1.0f) * 0x1p-24f;  // (0, 1]
  V8 t = __builtin_convertvector(angle_bits, V8) * 0x1p-24f -
         V8{0, 0.25f, 0, 0.25f, 0, 0.25f, 0, 0.25f};
  t = t > 0.5f ? t - 1.0f : t;
  return sqrt(-2.0f * log_unit(u)) * cos_turn(t);
}

void gaussian(const NoiseArgs& a) {
  const float stddev = a.stddev;
  const std::int64_t live = a.live_lanes;
  map_words(
      a.stream, a.src, a.dst, a.begin, a.end, [=](V8 x, U8 w) __attribute__((always_inline)) {
        const V8 y = x + normal(w) * stddev;
        return live < kBlock ? keep_lanes(y, live) : y;
      });
}

}  // namespace

void fill_noise(KernelTable& table) {
  table.noise = {dropout, gaussian, words};
}

}  // namespace surefit::kernels::SUREFIT_ISA
