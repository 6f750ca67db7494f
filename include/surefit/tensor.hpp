// SPDX-License-Identifier: Apache-2.0
// Arrays as users hold them: channels last, row-major, owned. Every access is checked: an index out
// of range is an error, never corruption.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "surefit/error.hpp"

namespace surefit {

enum class DType : std::uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kBool
};

std::size_t size_of(DType dtype);       // bytes per element
std::string_view name_of(DType dtype);  // "float32", as numpy and Keras say it

template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::kFloat32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::kFloat64;
}
template <>
constexpr DType dtype_of<std::int8_t>() {
  return DType::kInt8;
}
template <>
constexpr DType dtype_of<std::int16_t>() {
  return DType::kInt16;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::kInt32;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::kInt64;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::kUInt8;
}
template <>
constexpr DType dtype_of<std::uint16_t>() {
  return DType::kUInt16;
}
template <>
constexpr DType dtype_of<std::uint32_t>() {
  return DType::kUInt32;
}
template <>
constexpr DType dtype_of<std::uint64_t>() {
  return DType::kUInt64;
}
template <>
constexpr DType dtype_of<bool>() {
  return DType::kBool;
}

// Extents of an array. An empty shape is a scalar.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : dims_(dims) { check(); }
  explicit Shape(std::vector<std::int64_t> dims) : dims_(std::move(dims)) { check(); }

  std::size_t rank() const { return dims_.size(); }
  std::int64_t operator[](std::size_t axis) const;  // throws ConfigError when axis >= rank()
  std::span<const std::int64_t> dims() const { return dims_; }
  std::size_t count() const;  // number of elements
  Shape drop_front() const;   // without the first axis
  Shape prepend(std::int64_t extent) const;
  std::string to_string() const;  // "(28, 28, 1)"
  bool operator==(const Shape&) const = default;

 private:
  void check() const;  // extents are non-negative and their product fits; throws ConfigError
  std::vector<std::int64_t> dims_;
};

// An owned array. Copies share nothing; moves are cheap. Not synchronised.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(
      Shape shape,
      DType dtype = DType::kFloat32);  // zeros; throws SystemError when memory is refused

  template <typename T>
  static Tensor of(Shape shape, std::span<const T> values) {
    Tensor tensor(std::move(shape), dtype_of<T>());
    tensor.assign(values.data(), values.size_bytes());
    return tensor;
  }

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  std::size_t count() const { return shape_.count(); }
  std::size_t bytes() const { return bytes_.size(); }
  bool empty() const { return count() == 0; }

  std::span<const std::byte> raw() const { return bytes_; }
  std::span<std::byte> raw() { return bytes_; }

  // The elements in row-major order; throws ConfigError when T is not the tensor's type.
  template <typename T>
  std::span<const T> values() const {
    require(dtype_of<T>());
    return {reinterpret_cast<const T*>(bytes_.data()), count()};
  }
  template <typename T>
  std::span<T> values() {
    require(dtype_of<T>());
    return {reinterpret_cast<T*>(bytes_.data()), count()};
  }

  // One element by its index along each axis, e.g. images.at<float>({0, 13, 13, 0}).
  template <typename T>
  const T& at(std::initializer_list<std::int64_t> index) const {
    return values<T>()[offset(index)];
  }
  template <typename T>
  T& at(std::initializer_list<std::int64_t> index) {
    return values<T>()[offset(index)];
  }

  // Rows [begin, end) along the first axis, as numpy's x[begin:end] but without wrapping or
  // clipping.
  Tensor slice(std::int64_t begin, std::int64_t end) const;
  Tensor reshape(Shape shape) const;

 private:
  void require(DType dtype) const;
  std::size_t offset(std::initializer_list<std::int64_t> index) const;
  void assign(const void* data, std::size_t bytes);

  Shape shape_{0};
  DType dtype_ = DType::kFloat32;
  std::vector<std::byte> bytes_;
};

}  // namespace surefit
