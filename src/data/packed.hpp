// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "data/node.hpp"

namespace surefit::data {

// A whole sample in one block of exactly the bytes it needs: types, extents, contents, number and
// path. What shuffle buffers and caches hold, where a Sample's reusable buffers would waste a page
// per component.
class Packed {
 public:
  Packed() = default;
  ~Packed() { clear(); }
  Packed(Packed&& other) noexcept;
  Packed& operator=(Packed&& other) noexcept;
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

  static std::size_t bytes_for(const Sample& sample);
  // Takes the bytes from the meter; a block of the same size is written in place. Throws above the
  // budget.
  void pack(const Sample& sample, Meter& meter);
  bool try_pack(const Sample& sample,
                Meter& meter);  // false, and nothing changed, when the budget has no room
  // `out` refers to this block and must not outlive it.
  void lend(Sample& out) const;
  void unpack(Sample& out) const;  // copies
  bool empty() const { return bytes_ == nullptr; }
  void clear();

 private:
  void write(const Sample& sample);
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
  Meter* meter_ = nullptr;
};

// The same layout in memory of the caller's; `lend_packed` is false when the bytes are not a packed
// sample.
void write_packed(const Sample& sample, std::span<std::byte> bytes);
bool lend_packed(std::span<const std::byte> bytes, Sample& out);

// For stores whose records all have one size. Paths differ in length and are only needed for
// errors, which a kept sample no longer has.
std::size_t packed_bytes(const std::vector<ComponentSpec>& spec);  // `spec` is fixed
void borrow_without_path(const Sample& sample, Sample& out);

}  // namespace surefit::data
