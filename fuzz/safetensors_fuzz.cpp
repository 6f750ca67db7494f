// SPDX-License-Identifier: Apache-2.0
#include "interop/safetensors.hpp"
#include "target.hpp"

bool surefit::fuzz::accepts(std::span<const std::byte> bytes) {
  return survives([&] {
    const SafetensorsFile file = SafetensorsFile::parse(memory(bytes), "fuzz");
    for (const std::string& name : file.names()) file.read(name);
  });
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  surefit::fuzz::accepts(std::as_bytes(std::span(data, size)));
  return 0;
}
