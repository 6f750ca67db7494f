// SPDX-License-Identifier: Apache-2.0
// Random changes of a picture's geometry: flip, crop, translation, rotation. Every op draws the
// same number of words whatever it then does, from a stream keyed by (seed, op, epoch, sample).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <numbers>

#include "data/transforms/transform.hpp"

namespace surefit::data {
namespace {

using transform::FillMode;
using transform::FillOptions;
using transform::Flip;

class Augment : public TransformOp {
 public:
  bool random() const override { return true; }
  std::vector<ComponentSpec> spec(std::vector<ComponentSpec> input) const override {
    first_component(input, "augment");
    return input;
  }
};

class RandomFlip final : public Augment {
 public:
  explicit RandomFlip(Flip mode) : mode_(mode) {}
  std::string name() const override { return "random_flip"; }
  std::string describe() const override {
    constexpr const char* kNames[] = {"horizontal", "vertical", "horizontal_and_vertical"};
    return fmt::format("random_flip({})", kNames[static_cast<int>(mode_)]);
  }
  void apply(Sample& sample, Random& random, Worker&) const override {
    const bool across = (random.word() >> 31) != 0 && mode_ != Flip::kVertical;
    const bool down = (random.word() >> 31) != 0 && mode_ != Flip::kHorizontal;
    if (!across && !down) return;
    const PictureDims in = picture_dims(sample[0]);
    const DType dtype = sample[0].dtype();
    const std::size_t pixel = static_cast<std::size_t>(in.channels) * size_of(dtype);
    const std::size_t row = static_cast<std::size_t>(in.width) * pixel;
    const Field::Replaced pixels = sample[0].replace(dtype, Dims(sample[0].dims()));
    for (std::int64_t y = 0; y < in.height; ++y) {
      const std::byte* from =
          pixels.old_bytes.data() + static_cast<std::size_t>(down ? in.height - 1 - y : y) * row;
      std::byte* to = pixels.bytes.data() + static_cast<std::size_t>(y) * row;
      if (across) {
        mirror(from, to, static_cast<std::size_t>(in.width), pixel);
      } else {
        std::memcpy(to, from, row);
      }
    }
  }

 private:
  static void mirror(const std::byte* from, std::byte* to, std::size_t width, std::size_t pixel) {
    from += width * pixel;
    for (std::size_t x = 0; x < width; ++x) {
      from -= pixel;
      for (std::size_t i = 0; i < pixel; ++i) to[i] = from[i];
      to += pixel;
    }
  }
  Flip mode_;
};

// Copies the height x width window at (top, left); what lies outside the picture becomes zero.
void crop(Field& field, std::int64_t top, std::int64_t left, std::int64_t height,
          std::int64_t width) {
  const PictureDims in = picture_dims(field);
  const DType dtype = field.dtype();
  const std::size_t pixel = static_cast<std::size_t>(in.channels) * size_of(dtype);
  const Field::Replaced pixels = field.replace(dtype, {height, width, in.channels});
  const std::int64_t first = std::clamp<std::int64_t>(-left, 0, width);
  const std::int64_t last = std::clamp<std::int64_t>(in.width - left, first, width);
  for (std::int64_t y = 0; y < height; ++y) {
    std::byte* to = pixels.bytes.data() + static_cast<std::size_t>(y * width) * pixel;
    const std::int64_t from_y = top + y;
    if (from_y < 0 || from_y >= in.height || first == last) {
      std::memset(to, 0, static_cast<std::size_t>(width) * pixel);
      continue;
    }
    const std::byte* from = pixels.old_bytes.data() +
                            static_cast<std::size_t>(from_y * in.width + left + first) * pixel;
    std::memset(to, 0, static_cast<std::size_t>(first) * pixel);
    std::memcpy(to + static_cast<std::size_t>(first) * pixel, from,
                static_cast<std::size_t>(last - first) * pixel);
    std::memset(to + static_cast<std::size_t>(last) * pixel, 0,
                static_cast<std::size_t>(width - last) * pixel);
  }
}

class RandomCrop final : public Augment {
 public:
  RandomCrop(std::int64_t height, std::int64_t width) : height_(height), width_(width) {
    if (height < 1 || width < 1) {
      throw ConfigError(
          fmt::format("[random_crop] to {} x {}; expected at least 1 a side", height, width));
    }
  }
  std::string name() const override { return "random_crop"; }
  std::string describe() const override {
    return fmt::format("random_crop({}, {})", height_, width_);
  }
  std::vector<ComponentSpec> spec(std::vector<ComponentSpec> input) const override {
    ComponentSpec& picture = first_component(input, "random_crop");
    picture.dims = {height_, width_, picture.dims.rank() == 3 ? picture.dims[2] : -1};
    return input;
  }
  void apply(Sample& sample, Random& random, Worker&) const override {
    const PictureDims in = picture_dims(sample[0]);
    if (in.height < height_ || in.width < width_) {
      throw DataError(
          fmt::format("picture smaller than the crop; expected at least {} x {}; got {} x {}",
                      height_, width_, in.height, in.width));
    }
    const std::uint32_t top = random.below(static_cast<std::uint32_t>(in.height - height_ + 1));
    const std::uint32_t left = random.below(static_cast<std::uint32_t>(in.width - width_ + 1));
    crop(sample[0], top, left, height_, width_);
  }

 private:
  std::int64_t height_, width_;
};

class RandomPadCrop final : public Augment {
 public:
  explicit RandomPadCrop(std::int64_t pad) : pad_(pad) {
    if (pad < 1 || pad > 10000) {
      throw ConfigError(fmt::format("[random_pad_crop] pad is {}; expected 1 to 10000", pad));
    }
  }
  std::string name() const override { return "random_pad_crop"; }
  std::string describe() const override { return fmt::format("random_pad_crop({})", pad_); }
  void apply(Sample& sample, Random& random, Worker&) const override {
    const PictureDims in = picture_dims(sample[0]);
    const auto offsets = static_cast<std::uint32_t>(2 * pad_ + 1);
    const std::int64_t top = random.below(offsets) - pad_, left = random.below(offsets) - pad_;
    crop(sample[0], top, left, in.height, in.width);
  }

 private:
  std::int64_t pad_;
};

// Where an output pixel comes from: input = matrix * output + shift, in pixel indices.
struct Affine {
  float xx = 1, xy = 0, x0 = 0, yx = 0, yy = 1, y0 = 0;
};

// Folds a coordinate into [0, count), as the fill mode says; -1 means "outside".
std::int64_t fold(std::int64_t at, std::int64_t count, FillMode mode) {
  if (at >= 0 && at < count) return at;
  if (mode == FillMode::kNearest) return std::clamp<std::int64_t>(at, 0, count - 1);
  if (mode == FillMode::kConstant) return -1;
  // Keras's "reflect" repeats the edge: d c b a | a b c d | d c b a.
  const std::int64_t period = 2 * count;
  at = ((at % period) + period) % period;
  return at < count ? at : period - 1 - at;
}

template <typename T>
class Warp {
 public:
  Warp(const PictureDims& dims, const T* from, T* to, const FillOptions& fill)
      : dims_(dims), from_(from), to_(to), fill_(fill) {}

  void run(const Affine& affine) {
    for (std::int64_t y = 0; y < dims_.height; ++y) {
      for (std::int64_t x = 0; x < dims_.width; ++x) {
        const auto fx = static_cast<float>(x), fy = static_cast<float>(y);
        sample(affine.xx * fx + affine.xy * fy + affine.x0,
               affine.yx * fx + affine.yy * fy + affine.y0);
        to_ += dims_.channels;
      }
    }
  }

 private:
  void sample(float x, float y) {
    if (fill_.interpolation == Interpolation::kNearest) {
      const T* pixel = at(static_cast<std::int64_t>(std::floor(y + 0.5f)),
                          static_cast<std::int64_t>(std::floor(x + 0.5f)));
      for (std::int64_t c = 0; c < dims_.channels; ++c)
        to_[c] = pixel == nullptr ? static_cast<T>(fill_.value) : pixel[c];
      return;
    }
    const float left = std::floor(x), top = std::floor(y);
    const float right_share = x - left, bottom_share = y - top;
    const auto x0 = static_cast<std::int64_t>(left), y0 = static_cast<std::int64_t>(top);
    const T* corners[4] = {at(y0, x0), at(y0, x0 + 1), at(y0 + 1, x0), at(y0 + 1, x0 + 1)};
    const float shares[4] = {(1 - bottom_share) * (1 - right_share),
                             (1 - bottom_share) * right_share, bottom_share * (1 - right_share),
                             bottom_share * right_share};
    for (std::int64_t c = 0; c < dims_.channels; ++c) {
      float sum = 0;
      for (int i = 0; i < 4; ++i) {
        sum +=
            shares[i] * (corners[i] == nullptr ? fill_.value : static_cast<float>(corners[i][c]));
      }
      to_[c] = std::is_same_v<T, float> ? static_cast<T>(sum) : static_cast<T>(sum + 0.5f);
    }
  }

  const T* at(std::int64_t y, std::int64_t x) const {
    const std::int64_t row = fold(y, dims_.height, fill_.mode),
                       column = fold(x, dims_.width, fill_.mode);
    if (row < 0 || column < 0) return nullptr;
    return from_ + (row * dims_.width + column) * dims_.channels;
  }

  PictureDims dims_;
  const T* from_;
  T* to_;
  FillOptions fill_;
};

void warp(Field& field, const Affine& affine, const FillOptions& fill) {
  const PictureDims dims = picture_dims(field);
  const DType dtype = field.dtype();
  const Field::Replaced pixels = field.replace(dtype, Dims(field.dims()));
  if (dtype == DType::kUInt8) {
    Warp<std::uint8_t>(dims, reinterpret_cast<const std::uint8_t*>(pixels.old_bytes.data()),
                       reinterpret_cast<std::uint8_t*>(pixels.bytes.data()), fill)
        .run(affine);
  } else {
    Warp<float>(dims, reinterpret_cast<const float*>(pixels.old_bytes.data()),
                reinterpret_cast<float*>(pixels.bytes.data()), fill)
        .run(affine);
  }
}

void check_fill(const FillOptions& fill, const char* where) {
  if (!(fill.value >= 0 && fill.value <= 255)) {
    throw ConfigError(fmt::format("[{}] fill value {}; expected 0 to 255", where, fill.value));
  }
  if (fill.interpolation == Interpolation::kArea) {
    throw ConfigError(fmt::format("[{}] area interpolation; expected bilinear or nearest", where));
  }
}

std::string describe_fill(const FillOptions& fill) {
  constexpr const char* kNames[] = {"reflect", "nearest", "constant"};
  std::string text = kNames[static_cast<int>(fill.mode)];
  if (fill.mode == FillMode::kConstant) text += fmt::format(" {}", fill.value);
  return text + (fill.interpolation == Interpolation::kNearest ? ", nearest pixel" : "");
}

class RandomTranslation final : public Augment {
 public:
  RandomTranslation(float height_factor, float width_factor, FillOptions fill)
      : height_factor_(height_factor), width_factor_(width_factor), fill_(fill) {
    check_fill(fill, "random_translation");
    if (!(height_factor >= 0 && height_factor <= 1 && width_factor >= 0 && width_factor <= 1)) {
      throw ConfigError(fmt::format("[random_translation] factors {} and {}; expected 0 to 1",
                                    height_factor, width_factor));
    }
  }
  std::string name() const override { return "random_translation"; }
  std::string describe() const override {
    return fmt::format("random_translation({}, {}, {})", height_factor_, width_factor_,
                       describe_fill(fill_));
  }
  void apply(Sample& sample, Random& random, Worker&) const override {
    const PictureDims dims = picture_dims(sample[0]);
    Affine affine;
    affine.y0 = random.uniform(-height_factor_, height_factor_) * static_cast<float>(dims.height);
    affine.x0 = random.uniform(-width_factor_, width_factor_) * static_cast<float>(dims.width);
    warp(sample[0], affine, fill_);
  }

 private:
  float height_factor_, width_factor_;
  FillOptions fill_;
};

class RandomRotation final : public Augment {
 public:
  RandomRotation(float factor, FillOptions fill) : factor_(factor), fill_(fill) {
    check_fill(fill, "random_rotation");
    if (!(factor >= 0 && factor <= 1)) {
      throw ConfigError(
          fmt::format("[random_rotation] factor {}; expected 0 to 1 of a full turn", factor));
    }
  }
  std::string name() const override { return "random_rotation"; }
  std::string describe() const override {
    return fmt::format("random_rotation({}, {})", factor_, describe_fill(fill_));
  }
  void apply(Sample& sample, Random& random, Worker&) const override {
    const PictureDims dims = picture_dims(sample[0]);
    const double angle = random.uniform(-factor_, factor_) * 2 * std::numbers::pi;
    const double cosine = std::cos(angle), sine = std::sin(angle);
    const double cx = static_cast<double>(dims.width - 1) / 2,
                 cy = static_cast<double>(dims.height - 1) / 2;
    warp(sample[0],
         {static_cast<float>(cosine), static_cast<float>(-sine),
          static_cast<float>(cx - cosine * cx + sine * cy), static_cast<float>(sine),
          static_cast<float>(cosine), static_cast<float>(cy - sine * cx - cosine * cy)},
         fill_);
  }

 private:
  float factor_;
  FillOptions fill_;
};

}  // namespace
}  // namespace surefit::data

namespace surefit::transform {

Transform random_flip(Flip mode) {
  return data::make_op<data::RandomFlip>(mode);
}
Transform random_crop(std::int64_t height, std::int64_t width) {
  return data::make_op<data::RandomCrop>(height, width);
}
Transform random_pad_crop(std::int64_t pad) {
  return data::make_op<data::RandomPadCrop>(pad);
}
Transform random_translation(float height_factor, float width_factor, FillOptions fill) {
  return data::make_op<data::RandomTranslation>(height_factor, width_factor, fill);
}
Transform random_rotation(float factor, FillOptions fill) {
  return data::make_op<data::RandomRotation>(factor, fill);
}

}  // namespace surefit::transform
