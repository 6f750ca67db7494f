// SPDX-License-Identifier: Apache-2.0
#include "interop/json.hpp"
#include "target.hpp"

bool surefit::fuzz::accepts(std::span<const std::byte> bytes) {
  return survives([&] {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const Json value = parse_json(text, "fuzz");
    // What was accepted must survive being written and read again.
    parse_json(dump_json(value), "fuzz again");
    get_int(value, "filters", "fuzz", 1, 1 << 20);
    for (const auto& item : value.items()) describe_json(item.value());
  });
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  surefit::fuzz::accepts(std::as_bytes(std::span(data, size)));
  return 0;
}
