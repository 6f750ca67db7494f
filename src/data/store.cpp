// SPDX-License-Identifier: Apache-2.0
#include "data/store.hpp"

#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <type_traits>

#include "base/check.hpp"

namespace surefit::data {
namespace {

template <typename From, typename To>
void convert(const std::byte* source, std::byte* destination, std::size_t count) {
  const From* from = reinterpret_cast<const From*>(source);
  To* to = reinterpret_cast<To*>(destination);
  if constexpr (std::is_floating_point_v<To>) {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      // Also false for NaN.
      const double value = static_cast<double>(from[i]);
      if (!(value >= static_cast<double>(std::numeric_limits<To>::min()) &&
            value <= static_cast<double>(std::numeric_limits<To>::max()))) {
        throw DataError(fmt::format("value {} does not fit {}", value, name_of(dtype_of<To>())));
      }
      to[i] = static_cast<To>(from[i]);
    }
  }
}

using Convert = void (*)(const std::byte*, std::byte*, std::size_t);

template <typename To>
Convert converter_from(DType from) {
  switch (from) {
    case DType::kFloat32:
      return convert<float, To>;
    case DType::kFloat64:
      return convert<double, To>;
    case DType::kInt8:
      return convert<std::int8_t, To>;
    case DType::kInt16:
      return convert<std::int16_t, To>;
    case DType::kInt32:
      return convert<std::int32_t, To>;
    case DType::kInt64:
      return convert<std::int64_t, To>;
    case DType::kUInt8:
      return convert<std::uint8_t, To>;
    case DType::kUInt16:
      return convert<std::uint16_t, To>;
    case DType::kUInt32:
      return convert<std::uint32_t, To>;
    case DType::kUInt64:
      return convert<std::uint64_t, To>;
    case DType::kBool:
      return convert<bool, To>;
    case DType::kFloat16:
      return nullptr;
  }
  return nullptr;
}

Convert converter(DType from, DType to) {
  if (to == DType::kFloat32) return converter_from<float>(from);
  if (to == DType::kInt32) return converter_from<std::int32_t>(from);
  return nullptr;
}

}  // namespace

bool can_store(DType from, DType to) {
  return from == to || converter(from, to) != nullptr;
}

void store(const Field& field, DType dtype, std::span<std::byte> destination) {
  const std::size_t count = field.dims().count();
  if (count == 0) return;
  if (field.bytes().data() == destination.data()) return;  // already written in place
  SUREFIT_CHECK(destination.size() == count * size_of(dtype), "a slot of {} bytes for {} of {}",
                destination.size(), count, name_of(dtype));
  convert_values(field.dtype(), field.bytes().data(), dtype, destination.data(), count);
}

void convert_values(DType from, const std::byte* source, DType to, std::byte* destination,
                    std::size_t count) {
  if (from == to) {
    std::memcpy(destination, source, count * size_of(to));
    return;
  }
  const Convert function = converter(from, to);
  SUREFIT_CHECK(function != nullptr, "no conversion from {} to {}", name_of(from), name_of(to));
  function(source, destination, count);
}

}  // namespace surefit::data
