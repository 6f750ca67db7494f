// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "surefit/config.hpp"
#include "surefit/tensor.hpp"

namespace surefit {

// Fills elements [begin, begin + piece.size()) of a parameter of Keras's shape. The numbers are a
// function of (seed, parameter id, element) alone; distributions, scales and defaults are Keras's.
// Throws ConfigError on an unknown initializer.
void initialize(const Object& initializer, const Shape& shape, std::uint64_t seed,
                std::uint32_t parameter_id, std::size_t begin, std::span<float> piece);

// Whether the elements depend on each other, so that the piece must be the whole.
bool initializes_as_a_whole(const Object& initializer);

}  // namespace surefit
