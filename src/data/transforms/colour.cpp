// SPDX-License-Identifier: Apache-2.0
// Random changes of a picture's values, and the command line's spelling of all augmentations.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>

#include "data/transforms/transform.hpp"

namespace surefit::data {
namespace {

class ColourOp : public TransformOp {
 public:
  bool random() const override { return true; }
  std::vector<ComponentSpec> spec(std::vector<ComponentSpec> input) const override {
    first_component(input, "augment");
    return input;
  }

 protected:
  // value -> value * scale + offset[channel], clipped to [low, high]; types are kept.
  static void adjust(Field& field, float scale, std::span<const float> offset, float low,
                     float high) {
    const std::size_t channels = offset.size();
    if (field.dtype() == DType::kUInt8) {
      const std::span<std::uint8_t> values = field.mutable_values<std::uint8_t>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float value = static_cast<float>(values[i]) * scale + offset[i % channels];
        values[i] = static_cast<std::uint8_t>(
            std::clamp(value, std::max(low, 0.0f), std::min(high, 255.0f)) + 0.5f);
      }
    } else {
      const std::span<float> values = field.mutable_values<float>();
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = std::clamp(values[i] * scale + offset[i % channels], low, high);
      }
    }
  }
};

// Keras's RandomBrightness: adds up to +-factor of the value range, the same to the whole picture.
class RandomBrightness final : public ColourOp {
 public:
  RandomBrightness(float factor, float low, float high) : factor_(factor), low_(low), high_(high) {
    if (!(factor >= 0 && factor <= 1 && low < high)) {
      throw ConfigError(fmt::format(
          "[random_brightness] factor {} in {} to {}; expected a factor of 0 to 1 and a "
          "range",
          factor, low, high));
    }
  }
  std::string name() const override { return "random_brightness"; }
  std::string describe() const override {
    return fmt::format("random_brightness({}, {}, {})", factor_, low_, high_);
  }
  void apply(Sample& sample, Random& random, Worker&) const override {
    picture_dims(sample[0]);
    const float offset[1] = {random.uniform(-factor_, factor_) * (high_ - low_)};
    adjust(sample[0], 1.0f, offset, low_, high_);
  }

 private:
  float factor_, low_, high_;
};

// Keras's RandomContrast: (value - mean) * f + mean per channel, f within 1 +- factor.
class RandomContrast final : public ColourOp {
 public:
  explicit RandomContrast(float factor) : factor_(factor) {
    if (!(factor >= 0 && factor <= 1)) {
      throw ConfigError(fmt::format("[random_contrast] factor {}; expected 0 to 1", factor));
    }
  }
  std::string name() const override { return "random_contrast"; }
  std::string describe() const override { return fmt::format("random_contrast({})", factor_); }
  void apply(Sample& sample, Random& random, Worker&) const override {
    constexpr std::int64_t kMaxChannels = 16;
    const PictureDims dims = picture_dims(sample[0]);
    if (dims.channels > kMaxChannels) {
      throw DataError(
          fmt::format("expected at most {} channels; got {}", kMaxChannels, dims.channels));
    }
    const float scale = random.uniform(1 - factor_, 1 + factor_);
    const std::size_t channels = static_cast<std::size_t>(dims.channels);
    std::array<double, kMaxChannels> sums{};
    add_up(sample[0], channels, sums);
    std::array<float, kMaxChannels> offset{};
    for (std::size_t c = 0; c < channels; ++c) {
      const double mean = sums[c] / static_cast<double>(dims.height * dims.width);
      offset[c] = static_cast<float>(mean * (1.0 - static_cast<double>(scale)));
    }
    adjust(sample[0], scale, std::span<const float>(offset.data(), channels), 0, 255);
  }

 private:
  static void add_up(const Field& field, std::size_t channels, std::span<double> sums) {
    if (field.dtype() == DType::kUInt8) {
      const std::span<const std::uint8_t> values = field.values<std::uint8_t>();
      for (std::size_t i = 0; i < values.size(); ++i) sums[i % channels] += values[i];
    } else {
      const std::span<const float> values = field.values<float>();
      for (std::size_t i = 0; i < values.size(); ++i)
        sums[i % channels] += static_cast<double>(values[i]);
    }
  }
  float factor_;
};

}  // namespace
}  // namespace surefit::data

namespace surefit::transform {
namespace {

constexpr std::string_view kKnown =
    "flip, flip:vertical, flip:both, crop:PIXELS, translation:FACTOR, rotation:FACTOR, "
    "brightness:FACTOR, "
    "contrast:FACTOR";

float number(std::string_view part, std::string_view argument) {
  float value = 0;
  const auto [end, error] =
      std::from_chars(argument.data(), argument.data() + argument.size(), value);
  if (error != std::errc{} || end != argument.data() + argument.size()) {
    throw ConfigError(fmt::format(
        "[augment] \"{}\" needs a number after the colon; expected one of {}", part, kKnown));
  }
  return value;
}

Transform parse_one(std::string_view part) {
  const std::size_t colon = part.find(':');
  const std::string_view name = part.substr(0, colon);
  const std::string_view argument =
      colon == std::string_view::npos ? std::string_view() : part.substr(colon + 1);
  if (name == "flip" && (argument.empty() || argument == "horizontal"))
    return random_flip(Flip::kHorizontal);
  if (name == "flip" && argument == "vertical") return random_flip(Flip::kVertical);
  if (name == "flip" && argument == "both") return random_flip(Flip::kHorizontalAndVertical);
  if (name == "crop") return random_pad_crop(static_cast<std::int64_t>(number(part, argument)));
  if (name == "translation")
    return random_translation(number(part, argument), number(part, argument));
  if (name == "rotation") return random_rotation(number(part, argument));
  if (name == "brightness") return random_brightness(number(part, argument));
  if (name == "contrast") return random_contrast(number(part, argument));
  throw ConfigError(fmt::format("[augment] unknown \"{}\"; expected one of {}", part, kKnown));
}

}  // namespace

Transform random_brightness(float factor, float low, float high) {
  return data::make_op<data::RandomBrightness>(factor, low, high);
}
Transform random_contrast(float factor) {
  return data::make_op<data::RandomContrast>(factor);
}

std::vector<Transform> parse_augment(std::string_view text) {
  std::vector<Transform> transforms;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    transforms.push_back(parse_one(text.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) throw ConfigError("[augment] the list ends with a comma");
  }
  return transforms;
}

}  // namespace surefit::transform
