// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "data/images/decode.hpp"
#include "data/images/memory.hpp"
#include "target.hpp"

namespace {

class Discard final : public surefit::data::RowSink {
 public:
  void start(std::int64_t height, std::int64_t width, std::int64_t channels) override {
    // What a picture claims may be large; a fuzzer's memory is not.
    if (height * width > (1 << 22)) throw surefit::DataError("too large for a fuzzer");
    row_.resize(static_cast<std::size_t>(width * channels));
  }
  std::uint8_t* next_row() override { return row_.data(); }
  void row_done() override {}

 private:
  std::vector<std::uint8_t> row_;
};

}  // namespace

bool surefit::fuzz::accepts(std::span<const std::byte> bytes) {
  return survives([&] {
    data::read_picture_info(bytes);
    static data::DecoderMemory
        memory;  // as a worker has it: what one picture leaves, the next meets
    for (const std::int64_t channels : {3, 1}) {
      Discard sink;
      data::decode_picture(bytes, {.channels = channels, .cover_height = 4, .cover_width = 4}, sink,
                           memory);
    }
  });
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  surefit::fuzz::accepts(std::as_bytes(std::span(data, size)));
  return 0;
}
