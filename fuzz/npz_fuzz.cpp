// SPDX-License-Identifier: Apache-2.0
#include "interop/npy.hpp"
#include "target.hpp"

bool surefit::fuzz::accepts(std::span<const std::byte> bytes) {
  return survives([&] {
    const NpzFile file = NpzFile::parse(memory(bytes), "fuzz");
    for (const std::string& name : file.names()) {
      const Tensor tensor = file.read(name);
      const NpzMember& member = file.member(name);
      if (member.data_offset && member.header.plain() && tensor.bytes() > 0) {
        std::byte last;
        file.read_data(name, tensor.bytes() - 1, std::span(&last, 1));
      }
    }
  });
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  surefit::fuzz::accepts(std::as_bytes(std::span(data, size)));
  return 0;
}
