// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <new>

#include "surefit/data.hpp"

#include "base/philox.hpp"
#include "base/units.hpp"
#include "data/node.hpp"

namespace surefit {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

Dims::Dims(std::span<const std::int64_t> extents) : rank_(extents.size()) {
  if (extents.size() > kMaxRank) {
    throw ConfigError(fmt::format("[dims] rank {} is not supported; expected at most {}",
                                  extents.size(), kMaxRank));
  }
  std::copy(extents.begin(), extents.end(), extents_.begin());
}

std::int64_t Dims::operator[](std::size_t axis) const {
  if (axis >= rank_) {
    throw ConfigError(
        fmt::format("[dims {}] no axis {}; expected less than {}", to_string(), axis, rank_));
  }
  return extents_[axis];
}

std::size_t Dims::count() const {
  std::size_t product = 1;
  for (const std::int64_t extent : values())
    product *= static_cast<std::size_t>(std::max<std::int64_t>(extent, 0));
  return product;
}

bool Dims::fixed() const {
  return std::none_of(extents_.begin(), extents_.begin() + static_cast<std::ptrdiff_t>(rank_),
                      [](std::int64_t extent) { return extent < 0; });
}

bool Dims::accepts(const Dims& actual) const {
  if (actual.rank_ != rank_) return false;
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    if (extents_[axis] >= 0 && extents_[axis] != actual.extents_[axis]) return false;
  }
  return true;
}

Dims Dims::prepend(std::int64_t extent) const {
  std::array<std::int64_t, kMaxRank + 1> extents{extent};
  std::copy_n(extents_.begin(), rank_, extents.begin() + 1);
  return Dims(std::span<const std::int64_t>(extents.data(), rank_ + 1));
}

Shape Dims::shape() const {
  if (!fixed()) throw ConfigError(fmt::format("[dims {}] an extent varies", to_string()));
  return Shape(std::vector<std::int64_t>(values().begin(), values().end()));
}

std::string Dims::to_string() const {
  std::string text = "(";
  for (std::size_t axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ", ";
    text += extents_[axis] < 0 ? std::string("None") : std::to_string(extents_[axis]);
  }
  return text + (rank_ == 1 ? ",)" : ")");
}

std::string to_string(const std::vector<ComponentSpec>& spec) {
  std::string text;
  for (const ComponentSpec& component : spec) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", name_of(component.dtype), component.dims.to_string());
  }
  return "[" + text + "]";
}

std::uint32_t Random::word() {
  return Philox(seed_, Purpose::kAugment, op_, epoch_, sample_).word(next_++);
}
float Random::uniform() {
  return static_cast<float>(word() >> 8) * 0x1p-24f;
}
float Random::uniform(float low, float high) {
  return low + (high - low) * uniform();
}
std::uint32_t Random::below(std::uint32_t bound) {
  return static_cast<std::uint32_t>((std::uint64_t{word()} * bound) >> 32);
}

Field::~Field() {
  release();
}

Field::Field(Field&& other) noexcept
    : dtype_(other.dtype_),
      dims_(other.dims_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      blocks_(std::exchange(other.blocks_, {})),
      target_(std::exchange(other.target_, nullptr)),
      target_dtype_(other.target_dtype_),
      target_bytes_(other.target_bytes_),
      meter_(other.meter_) {}

void Field::release() {
  for (Block& block : blocks_) {
    if (block.data == nullptr) continue;
    ::operator delete(block.data, kAlignment);
    if (meter_ != nullptr) meter_->give(block.capacity);
    block = {};
  }
  data_ = nullptr;
  size_ = 0;
  dims_ = {0};
}

std::byte* Field::reserve(Block& block, std::size_t bytes) {
  if (bytes <= block.capacity) return block.data;
  // Rounded up so that pictures of nearly the same size do not move the buffer again and again.
  const std::size_t wanted = (bytes + bytes / 8 + 4095) & ~std::size_t{4095};
  if (block.data != nullptr) {
    ::operator delete(block.data, kAlignment);
    if (meter_ != nullptr) meter_->give(block.capacity);
    block = {};
  }
  if (meter_ != nullptr) meter_->take(wanted);
  try {
    block.data = static_cast<std::byte*>(::operator new(wanted, kAlignment));
  } catch (const std::bad_alloc&) {
    if (meter_ != nullptr) meter_->give(wanted);
    throw SystemError(fmt::format("[data] cannot allocate {} for a sample", format_bytes(wanted)),
                      ENOMEM);
  }
  block.capacity = wanted;
  return block.data;
}

Field::Replaced Field::replace(DType dtype, const Dims& dims) {
  if (!dims.fixed()) {
    throw ConfigError(fmt::format("[data] contents need fixed extents; got {}", dims.to_string()));
  }
  const std::size_t bytes = dims.count() * size_of(dtype);
  const std::span<const std::byte> old_bytes(data_, size_);
  std::byte* storage = nullptr;
  if (target_ != nullptr && data_ != target_ && dtype == target_dtype_ && bytes == target_bytes_) {
    storage = target_;
  } else {
    // Never the block that still holds the old contents.
    Block& block = data_ != nullptr && data_ == blocks_[0].data ? blocks_[1] : blocks_[0];
    storage = reserve(block, bytes);
  }
  data_ = storage;
  size_ = bytes;
  dtype_ = dtype;
  dims_ = dims;
  return {old_bytes, {storage, bytes}};
}

void Field::reshape(const Dims& dims) {
  if (!dims.fixed() || dims.count() != dims_.count()) {
    throw ConfigError(fmt::format("[data] {} cannot become {}: other counts", dims_.to_string(),
                                  dims.to_string()));
  }
  dims_ = dims;
}

void Field::assign(const Tensor& tensor) {
  const Replaced storage = replace(tensor.dtype(), Dims(tensor.shape()));
  if (tensor.bytes() > 0) std::memcpy(storage.bytes.data(), tensor.raw().data(), tensor.bytes());
}

void Field::assign(std::string_view text) {
  const Replaced storage = replace(DType::kUInt8, {static_cast<std::int64_t>(text.size())});
  if (!text.empty()) std::memcpy(storage.bytes.data(), text.data(), text.size());
}

Tensor Field::tensor() const {
  Tensor copy(dims_.shape(), dtype_);
  if (size_ > 0) std::memcpy(copy.raw().data(), data_, size_);
  return copy;
}

std::string_view Field::text() const {
  require(DType::kUInt8);
  return {reinterpret_cast<const char*>(data_), size_};
}

void Field::borrow(DType dtype, const Dims& dims, const std::byte* data) {
  dtype_ = dtype;
  dims_ = dims;
  data_ = data;
  size_ = dims.count() * size_of(dtype);
}

void Field::offer(DType dtype, std::span<std::byte> target) {
  target_dtype_ = dtype;
  target_ = target.data();
  target_bytes_ = target.size();
}

void Field::copy_from(const Field& other) {
  const std::span<std::byte> storage = replace(other.dtype_, other.dims_).bytes;
  if (other.size_ > 0) std::memcpy(storage.data(), other.data_, other.size_);
}

void Field::swap_contents(Field& other) noexcept {
  std::swap(dtype_, other.dtype_);
  std::swap(dims_, other.dims_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(blocks_, other.blocks_);
}

void Field::require(DType dtype) const {
  if (dtype != dtype_) {
    throw ConfigError(fmt::format("[data] component {} holds {}; expected {}", dims_.to_string(),
                                  name_of(dtype_), name_of(dtype)));
  }
}

std::byte* Field::own() {
  const bool ours = data_ != nullptr &&
                    (data_ == blocks_[0].data || data_ == blocks_[1].data || data_ == target_);
  if (!ours && size_ > 0) {
    const Replaced storage = replace(dtype_, dims_);
    std::memcpy(storage.bytes.data(), storage.old_bytes.data(), storage.bytes.size());
  }
  return const_cast<std::byte*>(data_);
}

Field& Sample::operator[](std::size_t component) {
  return const_cast<Field&>(std::as_const(*this)[component]);
}

const Field& Sample::operator[](std::size_t component) const {
  if (component >= size_) {
    throw ConfigError(fmt::format("[data] sample {} has no component {}; expected less than {}",
                                  index_, component, size_));
  }
  return fields_[component];
}

void Sample::resize(std::size_t components) {
  while (fields_.size() < components) fields_.emplace_back().bind(meter_);
  size_ = components;
}

void Sample::copy_from(const Sample& other) {
  resize(other.size());
  for (std::size_t i = 0; i < size_; ++i) fields_[i].copy_from(other.fields_[i]);
  place(other.index_, other.epoch_);
  path_.assign(other.path_);
  rows_ = other.rows_;
}

void Sample::swap_contents(Sample& other) noexcept {
  std::swap(fields_, other.fields_);
  std::swap(size_, other.size_);
  std::swap(index_, other.index_);
  std::swap(epoch_, other.epoch_);
  std::swap(path_, other.path_);
  std::swap(rows_, other.rows_);
}

std::vector<ComponentSpec> Sample::spec() const {
  std::vector<ComponentSpec> spec;
  for (std::size_t i = 0; i < size_; ++i) spec.push_back({fields_[i].dtype(), fields_[i].dims()});
  return spec;
}

}  // namespace surefit
