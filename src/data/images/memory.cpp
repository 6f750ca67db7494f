// SPDX-License-Identifier: Apache-2.0
#include "data/images/memory.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <new>

#include "surefit/error.hpp"

#include "base/units.hpp"
#include "data/images/jpeg_reader.hpp"
#include "data/node.hpp"

namespace surefit::data {
namespace {

constexpr std::size_t kAlignment = 64, kLeastChunk = 64 << 10;

constexpr std::size_t aligned(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

DecoderMemory::DecoderMemory(Meter* meter) : meter_(meter) {
  chunks_.reserve(64);
}

DecoderMemory::~DecoderMemory() {
  jpeg_.reset();
  drop_chunks();
}

JpegReader& DecoderMemory::jpeg() {
  if (!jpeg_) jpeg_ = std::make_unique<JpegReader>(*this);
  return *jpeg_;
}

void DecoderMemory::reset() {
  if (chunks_.size() > 1) {
    // One chunk for the next picture of that size.
    std::size_t total = 0;
    for (const Chunk& chunk : chunks_) total += chunk.bytes;
    drop_chunks();
    add_chunk(total);
  }
  chunk_ = used_ = 0;
  refused_ = 0;
}

void* DecoderMemory::take(std::size_t bytes) noexcept {
  bytes = aligned(std::max<std::size_t>(bytes, 1), kAlignment);
  while (chunk_ < chunks_.size() && bytes > chunks_[chunk_].bytes - used_) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size() && !add_chunk(bytes)) return nullptr;
  void* memory = chunks_[chunk_].data + used_;
  used_ += bytes;
  return memory;
}

bool DecoderMemory::add_chunk(std::size_t bytes) noexcept {
  std::size_t total = 0;
  for (const Chunk& chunk : chunks_) total += chunk.bytes;
  const std::size_t wanted = aligned(std::max({bytes, kLeastChunk, total / 4}), 4096);
  refused_ = wanted;
  if (chunks_.size() == chunks_.capacity()) return false;
  if (meter_ != nullptr && !meter_->try_take(wanted)) return false;
  void* memory = ::operator new (wanted, std::align_val_t{kAlignment}, std::nothrow);
  if (memory == nullptr) {
    if (meter_ != nullptr) meter_->give(wanted);
    return false;
  }
  chunks_.push_back({static_cast<std::byte*>(memory), wanted});
  refused_ = 0;
  return true;
}

void DecoderMemory::drop_chunks() noexcept {
  for (const Chunk& chunk : chunks_) {
    ::operator delete (chunk.data, std::align_val_t{kAlignment});
    if (meter_ != nullptr) meter_->give(chunk.bytes);
  }
  chunks_.clear();
}

void DecoderMemory::throw_refused() const {
  if (meter_ != nullptr) {
    meter_->take(refused_);  // says what is used and wanted
    meter_->give(refused_);  // it was the system that refused
  }
  throw SystemError(fmt::format("[decode] no memory for {} more", format_bytes(refused_)), ENOMEM);
}

}  // namespace surefit::data
