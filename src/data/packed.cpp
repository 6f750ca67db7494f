// SPDX-License-Identifier: Apache-2.0
#include "data/packed.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "base/check.hpp"

namespace surefit::data {
namespace {

// [header][per component: type, rank, extents][path][padding to 16, contents]...
struct Header {
  std::uint64_t index = 0, epoch = 0;
  std::uint32_t components = 0, path_bytes = 0;
};
struct ComponentHeader {
  std::uint8_t dtype = 0, rank = 0;
};

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + 15) & ~std::size_t{15};
}

// A cursor over bytes that refuses to leave them.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool take(void* out, std::size_t count) {
    const std::byte* from = skip(count);
    if (from != nullptr && count > 0) std::memcpy(out, from, count);
    return from != nullptr;
  }
  const std::byte* skip(std::size_t count) {
    if (count > bytes_.size() - at_) return nullptr;
    at_ += count;
    return bytes_.data() + at_ - count;
  }
  bool align() {
    at_ = std::min(aligned(at_), bytes_.size());
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

}  // namespace

std::size_t Packed::bytes_for(const Sample& sample) {
  std::size_t bytes = sizeof(Header) + sample.path().size();
  for (std::size_t i = 0; i < sample.size(); ++i) {
    bytes += sizeof(ComponentHeader) + sample[i].dims().rank() * sizeof(std::int64_t);
  }
  for (std::size_t i = 0; i < sample.size(); ++i) bytes = aligned(bytes) + sample[i].bytes().size();
  return bytes;
}

std::size_t packed_bytes(const std::vector<ComponentSpec>& spec) {
  Sample like;
  like.resize(spec.size());
  for (std::size_t i = 0; i < spec.size(); ++i)
    like[i].borrow(spec[i].dtype, spec[i].dims, nullptr);
  return Packed::bytes_for(like);
}

void borrow_without_path(const Sample& sample, Sample& out) {
  out.resize(sample.size());
  for (std::size_t i = 0; i < sample.size(); ++i)
    out[i].borrow(sample[i].dtype(), sample[i].dims(), sample[i].bytes().data());
  out.place(sample.index(), sample.epoch());
  out.set_path({});
}

void write_packed(const Sample& sample, std::span<std::byte> bytes) {
  std::size_t at = 0;
  const auto put = [&](const void* from, std::size_t count) {
    SUREFIT_CHECK(count <= bytes.size() - at, "a packed sample outgrew {} bytes", bytes.size());
    if (count > 0) std::memcpy(bytes.data() + at, from, count);
    at += count;
  };
  const Header header{sample.index(), sample.epoch(), static_cast<std::uint32_t>(sample.size()),
                      static_cast<std::uint32_t>(sample.path().size())};
  put(&header, sizeof header);
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const ComponentHeader component{static_cast<std::uint8_t>(sample[i].dtype()),
                                    static_cast<std::uint8_t>(sample[i].dims().rank())};
    put(&component, sizeof component);
    put(sample[i].dims().values().data(), sample[i].dims().rank() * sizeof(std::int64_t));
  }
  put(sample.path().data(), sample.path().size());
  constexpr std::array<std::byte, 16> kZeros{};
  for (std::size_t i = 0; i < sample.size(); ++i) {
    put(kZeros.data(), aligned(at) - at);
    put(sample[i].bytes().data(), sample[i].bytes().size());
  }
}

bool lend_packed(std::span<const std::byte> bytes, Sample& out) {
  Bytes in(bytes);
  Header header;
  if (!in.take(&header, sizeof header) || header.components > 64) return false;
  std::array<ComponentSpec, 64> spec;
  for (std::uint32_t i = 0; i < header.components; ++i) {
    ComponentHeader component;
    std::array<std::int64_t, Dims::kMaxRank> extents{};
    if (!in.take(&component, sizeof component) || component.rank > Dims::kMaxRank ||
        component.dtype > static_cast<std::uint8_t>(DType::kBool) ||
        !in.take(extents.data(), component.rank * sizeof(std::int64_t))) {
      return false;
    }
    spec[i] = {static_cast<DType>(component.dtype),
               Dims(std::span<const std::int64_t>(extents.data(), component.rank))};
    if (!spec[i].dims.fixed()) return false;
  }
  const std::byte* path = in.skip(header.path_bytes);
  if (path == nullptr) return false;
  out.resize(header.components);
  out.place(header.index, header.epoch);
  out.set_path({reinterpret_cast<const char*>(path), header.path_bytes});
  for (std::uint32_t i = 0; i < header.components; ++i) {
    in.align();
    const std::byte* contents = in.skip(spec[i].dims.count() * size_of(spec[i].dtype));
    if (contents == nullptr) return false;
    out[i].borrow(spec[i].dtype, spec[i].dims, contents);
  }
  return true;
}

Packed::Packed(Packed&& other) noexcept
    : bytes_(std::move(other.bytes_)), size_(std::exchange(other.size_, 0)), meter_(other.meter_) {}

Packed& Packed::operator=(Packed&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(size_, other.size_);
  std::swap(meter_, other.meter_);
  return *this;
}

void Packed::clear() {
  if (bytes_ == nullptr) return;
  bytes_.reset();
  meter_->give(size_);
  size_ = 0;
}

void Packed::pack(const Sample& sample, Meter& meter) {
  const std::size_t bytes = bytes_for(sample);
  if (bytes != size_) {
    clear();
    meter.take(bytes);
    meter_ = &meter;
    size_ = bytes;
    try {
      bytes_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    } catch (...) {
      meter.give(bytes);
      size_ = 0;
      throw;
    }
  }
  write(sample);
}

bool Packed::try_pack(const Sample& sample, Meter& meter) {
  SUREFIT_CHECK(empty(), "a cache entry is written once");
  const std::size_t bytes = bytes_for(sample);
  if (!meter.try_take(bytes)) return false;
  std::byte* block = new (std::nothrow) std::byte[bytes];
  if (block == nullptr) {
    meter.give(bytes);
    return false;
  }
  bytes_.reset(block);
  meter_ = &meter;
  size_ = bytes;
  write(sample);
  return true;
}

void Packed::write(const Sample& sample) {
  write_packed(sample, {bytes_.get(), size_});
}

void Packed::lend(Sample& out) const {
  SUREFIT_CHECK(lend_packed({bytes_.get(), size_}, out), "a packed sample of {} bytes is damaged",
                size_);
}

void Packed::unpack(Sample& out) const {
  lend(out);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!out[i].bytes().empty()) out[i].make_own();
  }
}

}  // namespace surefit::data
