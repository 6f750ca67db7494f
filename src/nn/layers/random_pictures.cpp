// SPDX-License-Identifier: Apache-2.0
// RandomFlip, RandomCrop, RandomTranslation and RandomRotation: each draws an affine map for every
// sample.
#include <cmath>
#include <fmt/format.h>
#include <numbers>

#include "base/philox.hpp"
#include "nn/layers/common.hpp"
#include "nn/ops/warp.hpp"

namespace surefit {
namespace {

// The random numbers of one sample in one step.
Philox draw(const RandomKey& key, const StepContext& step, std::int64_t sample) {
  return Philox(key.seed.value_or(step.seed), Purpose::kAugment, key.layer, step.step,
                static_cast<std::uint64_t>(sample));
}

double between(const Philox& stream, std::uint64_t index, double low, double high) {
  return low + (high - low) * static_cast<double>(stream.uniform(index));
}

template <typename Spec>
Fill fill_of(const Spec& spec) {
  if (spec.fill_mode == "reflect") return Fill::kReflect;
  if (spec.fill_mode == "wrap") return Fill::kWrap;
  if (spec.fill_mode == "nearest") return Fill::kNearest;
  if (spec.fill_mode == "constant") return Fill::kConstant;
  throw ConfigError(
      fmt::format("[{}] fill_mode; expected reflect, wrap, nearest or constant; got '{}'",
                  Spec::kClass, spec.fill_mode));
}

template <typename Spec>
bool bilinear_of(const Spec& spec) {
  if (spec.interpolation == "bilinear") return true;
  if (spec.interpolation == "nearest") return false;
  throw ConfigError(fmt::format("[{}] interpolation; expected bilinear or nearest; got '{}'",
                                Spec::kClass, spec.interpolation));
}

void check_interval(std::string_view where, const Interval& interval, double most) {
  if (interval.low <= interval.high && interval.low >= -most && interval.high <= most) return;
  throw ConfigError(fmt::format("{}; expected low to high within -{} to {}; got {} to {}", where,
                                most, most, interval.low, interval.high));
}

class RandomFlipImpl final : public LayerImpl {
 public:
  explicit RandomFlipImpl(const RandomFlip& spec) : spec_(spec) {
    require_channels_last(spec.data_format);
    if (spec.mode != "horizontal" && spec.mode != "vertical" &&
        spec.mode != "horizontal_and_vertical") {
      throw ConfigError(fmt::format(
          "[RandomFlip] mode; expected horizontal, vertical or horizontal_and_vertical; got '{}'",
          spec.mode));
    }
  }
  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 3, "a picture (height, width, channels)");
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    if (!builder.training()) return inputs[0];
    const Shape shape = builder.type(inputs[0]).shape;
    const bool rows = spec_.mode != "horizontal", columns = spec_.mode != "vertical";
    const auto map = [=, key = random_key(builder, spec_.seed)](const StepContext& step,
                                                                std::int64_t sample) {
      const Philox stream = draw(key, step, sample);
      Affine affine;
      if (rows && stream.word(0) % 2 == 1) {
        affine.a = -1;
        affine.c = static_cast<double>(shape[0] - 1);
      }
      if (columns && stream.word(1) % 2 == 1) {
        affine.e = -1;
        affine.f = static_cast<double>(shape[1] - 1);
      }
      return affine;
    };
    return builder.emit1(
        make_warp_op({.input = shape, .output = shape, .bilinear = false, .map = map}),
        {inputs[0]});
  }

 private:
  RandomFlip spec_;
};

class RandomCropImpl final : public LayerImpl {
 public:
  explicit RandomCropImpl(const RandomCrop& spec) : spec_(spec) {
    require_channels_last(spec.data_format);
  }
  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 3, "a picture (height, width, channels)");
    if (spec_.height < 1 || spec_.width < 1 || spec_.height > inputs[0][0] ||
        spec_.width > inputs[0][1]) {
      throw ConfigError(fmt::format("height and width; expected a part of {}; got {}x{}",
                                    inputs[0].to_string(), spec_.height, spec_.width));
    }
    return Shape{spec_.height, spec_.width, inputs[0][2]};
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const Shape shape = builder.type(inputs[0]).shape;
    const std::int64_t spare_h = shape[0] - spec_.height, spare_w = shape[1] - spec_.width;
    const auto map = [=, key = random_key(builder, spec_.seed), training = builder.training()](
                         const StepContext& step, std::int64_t sample) {
      Affine affine;
      affine.c = static_cast<double>(spare_h / 2);
      affine.f = static_cast<double>(spare_w / 2);
      if (!training) return affine;
      const Philox stream = draw(key, step, sample);
      affine.c = static_cast<double>(stream.word(0) % static_cast<std::uint64_t>(spare_h + 1));
      affine.f = static_cast<double>(stream.word(1) % static_cast<std::uint64_t>(spare_w + 1));
      return affine;
    };
    return builder.emit1(make_warp_op({.input = shape,
                                       .output = {spec_.height, spec_.width, shape[2]},
                                       .bilinear = false,
                                       .map = map}),
                         {inputs[0]});
  }

 private:
  RandomCrop spec_;
};

void check(const RandomTranslation& spec) {
  check_interval("[RandomTranslation] height_factor", spec.height_factor, 1);
  check_interval("[RandomTranslation] width_factor", spec.width_factor, 1);
}
Affine affine_of(const RandomTranslation& spec, const Shape& shape, const Philox& stream) {
  Affine affine;
  affine.c = -between(stream, 0, spec.height_factor.low, spec.height_factor.high) *
             static_cast<double>(shape[0]);
  affine.f = -between(stream, 1, spec.width_factor.low, spec.width_factor.high) *
             static_cast<double>(shape[1]);
  return affine;
}

void check(const RandomRotation& spec) {
  check_interval("[RandomRotation] factor", spec.factor, 1);
}
Affine affine_of(const RandomRotation& spec, const Shape& shape, const Philox& stream) {
  const double angle = between(stream, 0, spec.factor.low, spec.factor.high) * 2 * std::numbers::pi;
  const double cos = std::cos(angle), sin = std::sin(angle);
  const double middle_h = static_cast<double>(shape[0] - 1) / 2,
               middle_w = static_cast<double>(shape[1] - 1) / 2;
  Affine affine;
  affine.a = cos;
  affine.b = sin;
  affine.c = middle_h - cos * middle_h - sin * middle_w;
  affine.d = -sin;
  affine.e = cos;
  affine.f = middle_w + sin * middle_h - cos * middle_w;
  return affine;
}

// Layers that move the picture under its frame, and fill what comes in from outside.
template <typename Spec>
class RandomMoveImpl final : public LayerImpl {
 public:
  explicit RandomMoveImpl(const Spec& spec)
      : spec_(spec), fill_(fill_of(spec)), bilinear_(bilinear_of(spec)) {
    require_channels_last(spec.data_format);
    check(spec);
  }
  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 3, "a picture (height, width, channels)");
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    if (!builder.training()) return inputs[0];
    const Shape shape = builder.type(inputs[0]).shape;
    const auto map = [shape, spec = spec_, key = random_key(builder, spec_.seed)](
                         const StepContext& step, std::int64_t sample) {
      return affine_of(spec, shape, draw(key, step, sample));
    };
    return builder.emit1(make_warp_op({.input = shape,
                                       .output = shape,
                                       .fill = fill_,
                                       .bilinear = bilinear_,
                                       .fill_value = static_cast<float>(spec_.fill_value),
                                       .map = map}),
                         {inputs[0]});
  }

 private:
  Spec spec_;
  Fill fill_;
  bool bilinear_;
};

}  // namespace

LayerPtr make_layer(const RandomFlip& spec) {
  return std::make_shared<RandomFlipImpl>(spec);
}
LayerPtr make_layer(const RandomCrop& spec) {
  return std::make_shared<RandomCropImpl>(spec);
}
LayerPtr make_layer(const RandomTranslation& spec) {
  return std::make_shared<RandomMoveImpl<RandomTranslation>>(spec);
}
LayerPtr make_layer(const RandomRotation& spec) {
  return std::make_shared<RandomMoveImpl<RandomRotation>>(spec);
}

}  // namespace surefit
