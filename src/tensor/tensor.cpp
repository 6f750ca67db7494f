// SPDX-License-Identifier: Apache-2.0
#include "surefit/tensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstring>
#include <new>

namespace surefit {
namespace {

struct DTypeInfo {
  std::string_view name;
  std::size_t bytes;
};
constexpr std::array<DTypeInfo, 12> kDTypes = {{{"float32", 4},
                                                {"float64", 8},
                                                {"float16", 2},
                                                {"int8", 1},
                                                {"int16", 2},
                                                {"int32", 4},
                                                {"int64", 8},
                                                {"uint8", 1},
                                                {"uint16", 2},
                                                {"uint32", 4},
                                                {"uint64", 8},
                                                {"bool", 1}}};

}  // namespace

std::size_t size_of(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].bytes; }
std::string_view name_of(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].name; }

std::int64_t Shape::operator[](std::size_t axis) const {
  if (axis >= dims_.size()) {
    throw ConfigError(
        fmt::format("[shape {}] no axis {}; expected less than {}", to_string(), axis, rank()));
  }
  return dims_[axis];
}

std::size_t Shape::count() const {
  std::size_t product = 1;
  for (const std::int64_t extent : dims_) product *= static_cast<std::size_t>(extent);
  return product;
}

Shape Shape::drop_front() const {
  if (dims_.empty()) throw ConfigError("[shape ()] a scalar has no first axis to drop");
  return Shape(std::vector<std::int64_t>(dims_.begin() + 1, dims_.end()));
}

Shape Shape::prepend(std::int64_t extent) const {
  std::vector<std::int64_t> dims{extent};
  dims.insert(dims.end(), dims_.begin(), dims_.end());
  return Shape(std::move(dims));
}

std::string Shape::to_string() const {
  return fmt::format("({}{})", fmt::join(dims_, ", "), dims_.size() == 1 ? "," : "");
}

void Shape::check() const {
  // Products are later multiplied by up to 8 bytes per element; 2^56 leaves room for that everywhere.
  constexpr std::int64_t kMaxCount = std::int64_t{1} << 56;
  std::int64_t product = 1;
  for (const std::int64_t extent : dims_) {
    if (extent < 0 || (extent > 0 && product > kMaxCount / extent)) {
      throw ConfigError(fmt::format("[shape {}] impossible extent {}", to_string(), extent));
    }
    if (extent > 0) product *= extent;
  }
}

Tensor::Tensor(Shape shape, DType dtype) : shape_(std::move(shape)), dtype_(dtype) {
  try {
    bytes_.resize(shape_.count() * size_of(dtype));
  } catch (const std::exception&) {
    throw SystemError(fmt::format("[tensor {}] cannot allocate {} bytes", shape_.to_string(),
                                  shape_.count() * size_of(dtype)),
                      ENOMEM);
  }
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  if (shape_.rank() == 0 || begin < 0 || end < begin || end > shape_[0]) {
    throw ConfigError(fmt::format("[tensor {}] slice [{}, {}) out of range along the first axis",
                                  shape_.to_string(), begin, end));
  }
  const std::size_t row = shape_[0] == 0 ? 0 : bytes_.size() / static_cast<std::size_t>(shape_[0]);
  Tensor rows(shape_.drop_front().prepend(end - begin), dtype_);
  rows.assign(bytes_.data() + static_cast<std::size_t>(begin) * row, rows.bytes_.size());
  return rows;
}

Tensor Tensor::reshape(Shape shape) const {
  if (shape.count() != count()) {
    throw ConfigError(fmt::format("[tensor {}] cannot become {}: {} elements, not {}",
                                  shape_.to_string(), shape.to_string(), count(), shape.count()));
  }
  Tensor other = *this;
  other.shape_ = std::move(shape);
  return other;
}

void Tensor::require(DType dtype) const {
  if (dtype != dtype_) {
    throw ConfigError(fmt::format("[tensor {}] holds {}; expected {}", shape_.to_string(),
                                  name_of(dtype_), name_of(dtype)));
  }
}

std::size_t Tensor::offset(std::initializer_list<std::int64_t> index) const {
  std::size_t position = 0;
  std::size_t axis = 0;
  bool good = index.size() == shape_.rank();
  for (const std::int64_t i : index) {
    if (!good || i < 0 || i >= shape_[axis]) {
      good = false;
      break;
    }
    position = position * static_cast<std::size_t>(shape_[axis]) + static_cast<std::size_t>(i);
    ++axis;
  }
  if (!good) {
    throw ConfigError(fmt::format("[tensor {}] index ({}) out of range", shape_.to_string(),
                                  fmt::join(index, ", ")));
  }
  return position;
}

void Tensor::assign(const void* data, std::size_t bytes) {
  if (bytes != bytes_.size()) {
    throw ConfigError(fmt::format("[tensor {}] needs {} bytes of values; got {}", shape_.to_string(),
                                  bytes_.size(), bytes));
  }
  if (bytes > 0) std::memcpy(bytes_.data(), data, bytes);
}

}  // namespace surefit
