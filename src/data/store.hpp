// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "surefit/data.hpp"

namespace surefit::data {

// Writes a component into its place in a batch, converting the type on the way: the one moment
// where uint8 pictures become float32. Throws DataError when a value does not fit the destination.
void store(const Field& field, DType dtype, std::span<std::byte> destination);
// The same for bare values.
void convert_values(DType from, const std::byte* source, DType to, std::byte* destination,
                    std::size_t count);
bool can_store(DType from, DType to);

}  // namespace surefit::data
