// SPDX-License-Identifier: Apache-2.0
#include "data/sources/synthetic.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>

#include "base/philox.hpp"

namespace surefit::data {
namespace {

// "32x32x3,10,5000": numbers with one character between them.
std::array<std::int64_t, 5> parse_numbers(const std::string& text) {
  constexpr std::string_view kSeparators = "xx,,";
  constexpr std::array<std::int64_t, 5> kMost = {1 << 16, 1 << 16, 1 << 16, 1000000,
                                                 std::int64_t{1} << 40};
  std::array<std::int64_t, 5> numbers{};
  const char* at = text.data();
  const char* end = at + text.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto [stop, error] = std::from_chars(at, end, numbers[i]);
    const bool last = i + 1 == numbers.size();
    if (error != std::errc{} || (last ? stop != end : stop == end || *stop != kSeparators[i])) {
      throw ConfigError(
          fmt::format("[data] expected synthetic:HxWxC,CLASSES,COUNT; got 'synthetic:{}'", text));
    }
    if (numbers[i] < 1 || numbers[i] > kMost[i]) {
      throw ConfigError(fmt::format("[data] synthetic:{}: expected a number from 1 to {}; got {}",
                                    text, kMost[i], numbers[i]));
    }
    if (!last) at = stop + 1;
  }
  return numbers;
}

}  // namespace

Dataset make_synthetic(const std::string& text, Split split, SyntheticLabels labels) {
  const bool masks = labels == SyntheticLabels::kMask;
  const auto [height, width, channels, classes, count] = parse_numbers(text);
  const Shape shape{height, width, channels};
  const std::uint64_t offset = split == Split::kTrain ? 0 : std::uint64_t{1} << 40;
  return Dataset::range(static_cast<std::uint64_t>(count))
      .map(
          [shape, classes = classes, offset, masks](Sample& sample) {
            const std::uint64_t index = sample.index() + offset;
            const Philox label_stream(1, Purpose::kTest, 0, 0, index);
            const auto label = static_cast<std::int32_t>(label_stream.word(0) %
                                                         static_cast<std::uint64_t>(classes));
            const Philox pattern(2, Purpose::kTest, 0, 0, static_cast<std::uint64_t>(label));
            const Philox noise(3, Purpose::kTest, 0, 0, index);
            sample.resize(2);
            const auto picture = sample[0].replace(DType::kFloat32, Dims(shape));
            auto* values = reinterpret_cast<float*>(picture.bytes.data());
            for (std::size_t i = 0; i < shape.count(); i += 4) {
              const PhiloxBlock p = pattern.block(i / 4), q = noise.block(i / 4);
              for (std::size_t lane = 0; lane < std::min<std::size_t>(4, shape.count() - i);
                   ++lane) {
                values[i + lane] = static_cast<float>(p[lane] >> 8) * 0x1p-25f +
                                   static_cast<float>(q[lane] >> 8) * 0x1p-25f;
              }
            }
            if (!masks) return sample[1].assign_scalar<std::int32_t>(label);
            const auto pixels = static_cast<std::size_t>(shape[0] * shape[1]);
            const auto mask = sample[1].replace(DType::kInt32, Dims(Shape{shape[0], shape[1]}));
            auto* marks = reinterpret_cast<std::int32_t*>(mask.bytes.data());
            for (std::size_t i = 0; i < pixels; ++i) {
              const float brightness = values[i * static_cast<std::size_t>(shape[2])];
              marks[i] = static_cast<std::int32_t>(
                  brightness * static_cast<float>(std::max<std::int64_t>(classes, 2)));
            }
          },
          MapOptions{.num_parallel_calls = AUTOTUNE,
                     .name = (masks ? "synthetic-masks:" : "synthetic:") + text});
}

}  // namespace surefit::data
