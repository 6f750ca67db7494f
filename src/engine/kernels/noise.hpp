// SPDX-License-Identifier: Apache-2.0
// Dropout and Gaussian noise without stored masks: the random word of an element is a pure function
// of (seed, layer, step, sample, element), exactly base/philox.hpp's Philox(...).word(element).
// `element` is the offset inside the sample as it lies in memory (nChw8c order for pictures), so
// backward and recompute see the same words.
#pragma once

#include <cstdint>

#include "base/philox.hpp"

namespace surefit::kernels {

// The key and the upper counter words of one Philox stream, for vector code.
struct PhiloxStream {
  std::uint32_t key0 = 0, key1 = 0, high0 = 0, high1 = 0;
};

// Runs on the caller's side: kernels never compile shared inline functions.
inline PhiloxStream philox_stream(std::uint64_t seed, Purpose purpose, std::uint32_t layer,
                                  std::uint64_t step, std::uint64_t sample) {
  const PhiloxBlock mixed =
      philox4x32_10({static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32),
                     static_cast<std::uint32_t>(purpose), layer},
                    static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  return {mixed[0], mixed[1], static_cast<std::uint32_t>(sample) ^ mixed[2],
          static_cast<std::uint32_t>(sample >> 32) ^ mixed[3]};
}

// Elements below this word are dropped.
inline std::uint32_t dropout_threshold(double rate) {
  const double scaled = rate * 0x1p32;
  return scaled >= 0xffffffffp0 ? 0xffffffffu : static_cast<std::uint32_t>(scaled);
}

// One sample's elements [begin, end). Backward is the same call on the gradient. dst may be src.
struct DropoutArgs {
  PhiloxStream stream;
  std::uint32_t threshold = 0;
  float scale = 1.0f;          // 1 / (1 - rate)
  const float* src = nullptr;  // of the sample, element 0
  float* dst = nullptr;
  std::int64_t begin = 0, end = 0;
};

// y = x + stddev * z; the gradient passes unchanged. On blocked tensors with padding, live_lanes as
// in ActivationArgs (begin and end multiples of 8 then).
struct NoiseArgs {
  PhiloxStream stream;
  float stddev = 1.0f;
  const float* src = nullptr;
  float* dst = nullptr;
  std::int64_t begin = 0, end = 0;
  int live_lanes = 8;
};

struct NoiseKernels {
  // y = word(element) >= threshold ? x * scale : 0
  void (*dropout)(const DropoutArgs&) = nullptr;
  // Box-Muller on the words of elements 2i and 2i + 1.
  void (*gaussian)(const NoiseArgs&) = nullptr;
  void (*words)(const PhiloxStream&, std::int64_t begin, std::int64_t end,
                std::uint32_t* words) = nullptr;
};

}  // namespace surefit::kernels
