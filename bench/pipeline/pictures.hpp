// SPDX-License-Identifier: Apache-2.0
// Pictures for benchmarks and tests, drawn from numbers: soft shapes with grain, so that they
// compress about as well as photographs do.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/philox.hpp"

namespace surefit {

inline std::vector<std::uint8_t> draw_picture(std::uint64_t number, int height, int width) {
  const Philox stream(42, Purpose::kTest, 0, 0, number);
  constexpr int kWaves = 6;
  std::vector<float> wave_x(kWaves), wave_y(kWaves), phase(kWaves);
  for (int i = 0; i < kWaves; ++i) {
    const float scale = 0.01f * static_cast<float>(1 << i);
    wave_x[i] = (stream.uniform(3 * i) - 0.5f) * scale;
    wave_y[i] = (stream.uniform(3 * i + 1) - 0.5f) * scale;
    phase[i] = stream.uniform(3 * i + 2) * 6.28f;
  }
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(height) * width * 3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        float value = 128;
        for (int i = 0; i < kWaves; ++i) {
          value += 50.0f / static_cast<float>(i + 1) *
                   std::sin(wave_x[i] * static_cast<float>(x) + wave_y[i] * static_cast<float>(y) +
                            phase[i] + static_cast<float>(c));
        }
        const std::size_t at = (static_cast<std::size_t>(y) * width + x) * 3 + c;
        value += (stream.uniform(100 + at) - 0.5f) * 14;
        pixels[at] = static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
      }
    }
  }
  return pixels;
}

}  // namespace surefit
