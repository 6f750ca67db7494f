// SPDX-License-Identifier: Apache-2.0
// A fuzz target: one parser over bytes in memory. A parser may refuse with DataError; anything else
// that escapes, and any finding of a sanitizer, is a defect.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "surefit/error.hpp"

#include "interop/bytes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace surefit::fuzz {

// Parses all there is; true when accepted, false when refused with DataError. Each target defines
// it.
bool accepts(std::span<const std::byte> bytes);

inline std::unique_ptr<ReadableFile> memory(std::span<const std::byte> bytes) {
  return std::make_unique<MemoryFile>(bytes);
}

template <typename Parse>
bool survives(Parse&& parse) {
  try {
    parse();
    return true;
  } catch (const DataError&) {
    return false;
  }
}

}  // namespace surefit::fuzz
