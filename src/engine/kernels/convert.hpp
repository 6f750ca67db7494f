// SPDX-License-Identifier: Apache-2.0
// 16-bit storage. Round to nearest even on every instruction set, the same bits with and without
// F16C (subnormals exact, NaN stays a quiet NaN with the upper payload bits).
#pragma once

#include <cstdint>

namespace surefit::kernels {

struct ConvertKernels {
  // The narrowing kernels return whether a finite value became infinite.
  bool (*float_to_half)(const float* x, std::uint16_t* y, std::int64_t count) = nullptr;
  void (*half_to_float)(const std::uint16_t* x, float* y, std::int64_t count) = nullptr;
  bool (*float_to_bfloat)(const float* x, std::uint16_t* y, std::int64_t count) = nullptr;
  void (*bfloat_to_float)(const std::uint16_t* x, float* y, std::int64_t count) = nullptr;
};

}  // namespace surefit::kernels
