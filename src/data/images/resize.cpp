// SPDX-License-Identifier: Apache-2.0
#include "data/images/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#include <fmt/format.h>

#include "base/check.hpp"
#include "data/node.hpp"

namespace surefit::data {
namespace {

// Four channels at once; unaligned loads and stores through memcpy.
using Float4 = float __attribute__((vector_size(16)));

Float4 load4(const float* from) {
  Float4 value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Bytes are mixed vertically in whole numbers: sums of byte x weight fit easily, are exact in any
// order, and two rows go through one multiply-add instruction. The weights of an output row sum to
// kOne.
constexpr int kWeightBits = 14;
constexpr std::int32_t kOne = 1 << kWeightBits;

// sums[i] = (or +=) a[i] * weight_a + b[i] * weight_b
template <bool kAdd>
void mix_two(const std::uint8_t* a, const std::uint8_t* b, std::int16_t weight_a,
             std::int16_t weight_b, std::int32_t* sums, std::size_t count) {
  std::size_t i = 0;
#if defined(__SSE2__)
  const __m128i zero = _mm_setzero_si128();
  const __m128i weights = _mm_set1_epi32(static_cast<int>(static_cast<std::uint16_t>(weight_a)) |
                                         (static_cast<int>(weight_b) << 16));
  const auto put = [&](std::size_t at, __m128i pairs) {
    auto* to = reinterpret_cast<__m128i*>(sums + at);
    __m128i products = _mm_madd_epi16(pairs, weights);
    if constexpr (kAdd) products = _mm_add_epi32(products, _mm_loadu_si128(to));
    _mm_storeu_si128(to, products);
  };
  for (; i + 16 <= count; i += 16) {
    const __m128i from_a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(a + i));
    const __m128i from_b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + i));
    const __m128i low = _mm_unpacklo_epi8(from_a, from_b), high = _mm_unpackhi_epi8(from_a, from_b);
    put(i, _mm_unpacklo_epi8(low, zero));
    put(i + 4, _mm_unpackhi_epi8(low, zero));
    put(i + 8, _mm_unpacklo_epi8(high, zero));
    put(i + 12, _mm_unpackhi_epi8(high, zero));
  }
#endif
  for (; i < count; ++i) {
    const std::int32_t sum = a[i] * weight_a + b[i] * weight_b;
    sums[i] = kAdd ? sums[i] + sum : sum;
  }
}

// Whole-number weights that sum to kOne exactly; the largest one takes up the rounding.
void quantise(std::span<const float> weights, std::span<std::int16_t> out) {
  std::int32_t total = 0;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    out[i] = static_cast<std::int16_t>(std::lround(weights[i] * static_cast<float>(kOne)));
    total += out[i];
    if (weights[i] > weights[largest]) largest = i;
  }
  out[largest] = static_cast<std::int16_t>(out[largest] + kOne - total);
}

struct Window {
  std::int64_t first = 0, last = 0;  // inclusive
};

// Input elements that may have a weight for output `i`, and the weight of one of them before
// normalisation.
Window window_of(double centre, double radius, std::int64_t in) {
  const auto first = static_cast<std::int64_t>(std::ceil(centre - radius - 0.5));
  const auto last = static_cast<std::int64_t>(std::floor(centre + radius - 0.5));
  return {std::clamp<std::int64_t>(first, 0, in - 1), std::clamp<std::int64_t>(last, 0, in - 1)};
}

double weight_of(std::int64_t element, double centre, double low, double high, double radius,
                 Interpolation method) {
  if (method == Interpolation::kArea) {
    return std::max(0.0, std::min<double>(high, static_cast<double>(element) + 1) -
                             std::max<double>(low, static_cast<double>(element)));
  }
  return std::max(0.0, 1.0 - std::abs(static_cast<double>(element) + 0.5 - centre) / radius);
}

}  // namespace

void make_axis_table(AxisTable& table, std::int64_t in, std::int64_t out,
                     const ResizeOptions& options) {
  SUREFIT_CHECK(in > 0 && out > 0, "resize of {} to {} elements", in, out);
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double radius = options.antialias ? std::max(scale, 1.0) : 1.0;
  const Interpolation method = options.method;
  const auto window = [&](std::int64_t i) -> Window {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    if (method == Interpolation::kNearest) {
      const auto nearest = std::min(static_cast<std::int64_t>(std::floor(centre)), in - 1);
      return {nearest, nearest};
    }
    if (method == Interpolation::kArea) {
      const auto first = static_cast<std::int64_t>(std::floor(static_cast<double>(i) * scale));
      const auto last =
          static_cast<std::int64_t>(std::ceil(static_cast<double>(i + 1) * scale)) - 1;
      return {std::min(first, in - 1), std::clamp(last, first, in - 1)};
    }
    return window_of(centre, radius, in);
  };

  table.taps = 1;
  for (std::int64_t i = 0; i < out; ++i) {
    const Window span = window(i);
    table.taps = std::max(table.taps, static_cast<std::size_t>(span.last - span.first + 1));
  }
  table.start.resize(static_cast<std::size_t>(out));
  table.weights.assign(static_cast<std::size_t>(out) * table.taps, 0.0f);
  for (std::int64_t i = 0; i < out; ++i) {
    const Window span = window(i);
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    double total = 0;
    for (std::int64_t e = span.first; e <= span.last; ++e) {
      total += method == Interpolation::kNearest
                   ? 1.0
                   : weight_of(e, centre, static_cast<double>(i) * scale,
                               static_cast<double>(i + 1) * scale, radius, method);
    }
    // All taps must lie inside the input: the window is moved left where padding would leave it.
    const std::int64_t start =
        std::max<std::int64_t>(0, std::min(span.first, in - static_cast<std::int64_t>(table.taps)));
    table.start[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(start);
    float* weights = table.weights.data() + static_cast<std::size_t>(i) * table.taps;
    for (std::int64_t e = span.first; e <= span.last; ++e) {
      const double weight = method == Interpolation::kNearest
                                ? 1.0
                                : weight_of(e, centre, static_cast<double>(i) * scale,
                                            static_cast<double>(i + 1) * scale, radius, method);
      weights[e - start] = static_cast<float>(weight / total);
    }
  }
}

StreamResizer::~StreamResizer() {
  if (meter_ != nullptr) meter_->give(metered_);
}

void StreamResizer::prepare(const Job& job, std::size_t element_bytes, Meter* meter) {
  job_ = job;
  make_axis_table(rows_, job.in_height, job.out_height, job.options);
  make_axis_table(columns_, job.in_width, job.out_width, job.options);
  arrived_ = emitted_ = 0;
  const std::size_t in_values = static_cast<std::size_t>(job.in_width * job.channels);
  const std::size_t out_values = static_cast<std::size_t>(job.out_width * job.channels);
  row_bytes_ = in_values * element_bytes;
  const std::size_t kept = rows_.taps * row_bytes_;
  const std::uint64_t bytes = kept + (2 * in_values + out_values + 8) * sizeof(float);
  if (meter_ == nullptr) meter_ = meter;
  if (bytes > metered_ && meter_ != nullptr) {
    meter_->take(bytes - metered_);
    metered_ = bytes;
  }
  if (kept_.size() < kept) kept_.resize(kept);
  if (element_bytes == 1) {
    row_weights_.resize(rows_.weights.size());
    for (std::size_t i = 0; i < rows_.weights.size(); i += rows_.taps) {
      quantise(std::span(rows_.weights).subspan(i, rows_.taps),
               std::span(row_weights_).subspan(i, rows_.taps));
    }
    if (sums_.size() < in_values) sums_.resize(in_values);
  }
  // Four floats are loaded and stored per pixel whatever its channels: room for the overhang.
  if (blended_.size() < in_values + 4) blended_.resize(in_values + 4);
  if (narrowed_.size() < out_values + 4) narrowed_.resize(out_values + 4);
}

void StreamResizer::start(const Job& job, std::span<std::uint8_t> out, Meter* meter) {
  SUREFIT_CHECK(
      out.size() == static_cast<std::size_t>(job.out_height * job.out_width * job.channels),
      "resize into {} bytes", out.size());
  prepare(job, 1, meter);
  float_pixels_ = false;
  out_ = out.data();
}

void StreamResizer::start(const Job& job, std::span<float> out, Meter* meter) {
  SUREFIT_CHECK(
      out.size() == static_cast<std::size_t>(job.out_height * job.out_width * job.channels),
      "resize into {} floats", out.size());
  prepare(job, sizeof(float), meter);
  float_pixels_ = true;
  float_out_ = out.data();
}

std::uint8_t* StreamResizer::next_row() {
  const std::size_t slot = static_cast<std::size_t>(arrived_) % rows_.taps;
  return reinterpret_cast<std::uint8_t*>(kept_.data() + slot * row_bytes_);
}

float* StreamResizer::next_float_row() {
  return reinterpret_cast<float*>(next_row());
}

void StreamResizer::row_done() {
  ++arrived_;
  while (emitted_ < job_.out_height &&
         rows_.start[static_cast<std::size_t>(emitted_)] + static_cast<std::int64_t>(rows_.taps) <=
             arrived_) {
    if (float_pixels_) {
      emit(float_out_);
    } else {
      emit(out_);
    }
    ++emitted_;
  }
}

void StreamResizer::blend_rows(std::size_t row, std::size_t values) {
  const std::size_t taps = rows_.taps, first = static_cast<std::size_t>(rows_.start[row]);
  const std::int16_t* weights = row_weights_.data() + row * taps;
  const auto kept = [&](std::size_t tap) {
    return reinterpret_cast<const std::uint8_t*>(kept_.data() + (first + tap) % taps * row_bytes_);
  };
  for (std::size_t tap = 0; tap < taps; tap += 2) {
    const bool pair = tap + 1 < taps;
    const std::uint8_t* second = kept(pair ? tap + 1 : tap);
    const std::int16_t second_weight = pair ? weights[tap + 1] : std::int16_t{0};
    if (tap == 0) {
      mix_two<false>(kept(0), second, weights[0], second_weight, sums_.data(), values);
    } else if (weights[tap] != 0 || second_weight != 0) {
      mix_two<true>(kept(tap), second, weights[tap], second_weight, sums_.data(), values);
    }
  }
  constexpr float kScale = 1.0f / kOne;
  for (std::size_t i = 0; i < values; ++i) blended_[i] = static_cast<float>(sums_[i]) * kScale;
}

void StreamResizer::blend_float_rows(std::size_t row, std::size_t values) {
  float* blended = blended_.data();
  const float* weights = rows_.weights.data() + row * rows_.taps;
  const std::size_t first = static_cast<std::size_t>(rows_.start[row]);
  for (std::size_t tap = 0; tap < rows_.taps; ++tap) {
    const auto* from =
        reinterpret_cast<const float*>(kept_.data() + (first + tap) % rows_.taps * row_bytes_);
    const float weight = weights[tap];
    if (tap == 0) {
      for (std::size_t i = 0; i < values; ++i) blended[i] = weight * from[i];
    } else if (weight != 0.0f) {
      for (std::size_t i = 0; i < values; ++i) blended[i] += weight * from[i];
    }
  }
}

template <typename T>
void StreamResizer::emit(T* out) {
  const std::size_t row = static_cast<std::size_t>(emitted_);
  const std::size_t channels = static_cast<std::size_t>(job_.channels);
  const std::size_t in_values = static_cast<std::size_t>(job_.in_width) * channels;
  const std::size_t out_values = static_cast<std::size_t>(job_.out_width) * channels;
  if (float_pixels_) {
    blend_float_rows(row, in_values);
  } else {
    blend_rows(row, in_values);
  }

  float* narrowed = narrowed_.data();
  for (std::size_t column = 0; column < static_cast<std::size_t>(job_.out_width); ++column) {
    const float* tap_weights = columns_.weights.data() + column * columns_.taps;
    const float* pixel =
        blended_.data() + static_cast<std::size_t>(columns_.start[column]) * channels;
    if (channels <= 4) {
      Float4 sum = load4(pixel) * tap_weights[0];
      for (std::size_t tap = 1; tap < columns_.taps; ++tap) {
        sum += load4(pixel + tap * channels) * tap_weights[tap];
      }
      std::memcpy(narrowed + column * channels, &sum, sizeof sum);
    } else {
      for (std::size_t channel = 0; channel < channels; ++channel) {
        float sum = 0;
        for (std::size_t tap = 0; tap < columns_.taps; ++tap) {
          sum += pixel[tap * channels + channel] * tap_weights[tap];
        }
        narrowed[column * channels + channel] = sum;
      }
    }
  }

  T* destination = out + row * out_values;
  if constexpr (std::is_same_v<T, float>) {
    std::memcpy(destination, narrowed, out_values * sizeof(float));
  } else {
    // Weights sum to one within rounding, so 255 may come out as 255.00002 but never as 255.5.
    for (std::size_t i = 0; i < out_values; ++i) {
      destination[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(narrowed[i] + 0.5f));
    }
  }
}

}  // namespace surefit::data
