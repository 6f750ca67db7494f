// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace surefit::data {

class Meter;
class JpegReader;

// What one thread's decoders work in. libjpeg and libpng take all they need for a picture from here
// instead of malloc: it grows to the largest picture met, through the meter, and serves the next
// one without asking the system again. Not synchronised.
class DecoderMemory {
 public:
  explicit DecoderMemory(Meter* meter = nullptr);
  ~DecoderMemory();
  DecoderMemory(const DecoderMemory&) = delete;
  DecoderMemory& operator=(const DecoderMemory&) = delete;

  void reset();  // everything handed out may be handed out again
  // Aligned to 64 bytes; null when the budget or the system has no more. Never throws: C code
  // calls.
  void* take(std::size_t bytes) noexcept;
  bool refused() const { return refused_ > 0; }
  [[noreturn]] void throw_refused() const;

  JpegReader& jpeg();  // made at the first call

 private:
  struct Chunk {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  bool add_chunk(std::size_t bytes) noexcept;
  void drop_chunks() noexcept;

  Meter* meter_;
  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0, used_ = 0;  // where the next bytes come from
  std::uint64_t refused_ = 0;
  std::unique_ptr<JpegReader> jpeg_;
};

}  // namespace surefit::data
