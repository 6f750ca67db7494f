// SPDX-License-Identifier: Apache-2.0
#include "interop/cifar.hpp"
#include "target.hpp"

bool surefit::fuzz::accepts(std::span<const std::byte> bytes) {
  const bool ten = survives([&] { parse_cifar(memory(bytes), "fuzz", Cifar::k10); });
  const bool hundred = survives([&] { parse_cifar(memory(bytes), "fuzz", Cifar::k100); });
  return ten || hundred;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  surefit::fuzz::accepts(std::as_bytes(std::span(data, size)));
  return 0;
}
