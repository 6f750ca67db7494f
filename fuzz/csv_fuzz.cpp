// SPDX-License-Identifier: Apache-2.0
#include "data/sources/csv.hpp"
#include "target.hpp"

bool surefit::fuzz::accepts(std::span<const std::byte> bytes) {
  return survives([&] {
    bool labelled = false;
    data::parse_csv_paths({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                          "dir/fuzz.csv", {}, labelled);
  });
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  surefit::fuzz::accepts(std::as_bytes(std::span(data, size)));
  return 0;
}
