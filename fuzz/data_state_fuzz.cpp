// SPDX-License-Identifier: Apache-2.0
#include "data/state.hpp"
#include "target.hpp"

bool surefit::fuzz::accepts(std::span<const std::byte> bytes) {
  return survives([&] {
    data::State::parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  });
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  surefit::fuzz::accepts(std::as_bytes(std::span(data, size)));
  return 0;
}
