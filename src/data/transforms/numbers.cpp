// SPDX-License-Identifier: Apache-2.0
// Types and ranges of values: cast, rescale, normalise, one_hot.
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/store.hpp"
#include "data/transforms/transform.hpp"

namespace surefit::data {
namespace {

class Cast final : public TransformOp {
 public:
  explicit Cast(DType dtype) : dtype_(dtype) {
    if (dtype != DType::kFloat32 && dtype != DType::kInt32) {
      throw ConfigError(fmt::format("[cast] to {}; expected float32 or int32", name_of(dtype)));
    }
  }
  std::string name() const override { return "cast"; }
  std::string describe() const override { return fmt::format("cast({})", name_of(dtype_)); }
  std::vector<ComponentSpec> spec(std::vector<ComponentSpec> input) const override {
    first_component(input, "cast").dtype = dtype_;
    return input;
  }
  void apply(Sample& sample, Random&, Worker&) const override {
    const DType from = sample[0].dtype();
    if (from == dtype_) return;
    if (!can_store(from, dtype_)) {
      throw ConfigError(fmt::format("cannot cast {} to {}", name_of(from), name_of(dtype_)));
    }
    const std::size_t count = sample[0].dims().count();
    const Field::Replaced values = sample[0].replace(dtype_, Dims(sample[0].dims()));
    convert_values(from, values.old_bytes.data(), dtype_, values.bytes.data(), count);
  }

 private:
  DType dtype_;
};

// value * scale + offset with one pair per channel. The pairs are repeated to a whole number of
// vectors, so that the inner loop has neither a remainder nor a division.
class Affine final : public TransformOp {
 public:
  Affine(std::string name, std::string description, std::vector<float> scale,
         std::vector<float> offset)
      : name_(std::move(name)), description_(std::move(description)), channels_(scale.size()) {
    if (channels_ == 0 || channels_ > kMaxChannels || offset.size() != channels_) {
      throw ConfigError(
          fmt::format("[{}] {} and {} values per channel; expected equally many, 1 to {}", name_,
                      scale.size(), offset.size(), kMaxChannels));
    }
    period_ = channels_ * kLanes;
    for (std::size_t i = 0; i < period_; ++i) {
      scale_[i] = scale[i % channels_];
      offset_[i] = offset[i % channels_];
    }
  }
  std::string name() const override { return name_; }
  std::string describe() const override { return description_; }
  std::vector<ComponentSpec> spec(std::vector<ComponentSpec> input) const override {
    first_component(input, name_.c_str()).dtype = DType::kFloat32;
    return input;
  }
  void apply(Sample& sample, Random&, Worker&) const override {
    const Dims dims = sample[0].dims();
    if (channels_ > 1 &&
        (dims.rank() == 0 || dims[dims.rank() - 1] != static_cast<std::int64_t>(channels_))) {
      throw DataError(fmt::format("expected {} channels; got {}", channels_, dims.to_string()));
    }
    const DType from = sample[0].dtype();
    const std::size_t count = dims.count();
    const Field::Replaced values = sample[0].replace(DType::kFloat32, dims);
    float* out = reinterpret_cast<float*>(values.bytes.data());
    if (from == DType::kUInt8) {
      run(reinterpret_cast<const std::uint8_t*>(values.old_bytes.data()), out, count);
    } else if (from == DType::kFloat32) {
      run(reinterpret_cast<const float*>(values.old_bytes.data()), out, count);
    } else {
      convert_values(from, values.old_bytes.data(), DType::kFloat32, values.bytes.data(), count);
      run(out, out, count);
    }
  }

 private:
  static constexpr std::size_t kLanes = 16, kMaxChannels = 4;

  template <typename T>
  void run(const T* in, float* out, std::size_t count) const {
    std::size_t i = 0;
    for (; i + period_ <= count; i += period_) {
      for (std::size_t j = 0; j < period_; ++j) {
        out[i + j] = static_cast<float>(in[i + j]) * scale_[j] + offset_[j];
      }
    }
    for (; i < count; ++i)
      out[i] = static_cast<float>(in[i]) * scale_[i % period_] + offset_[i % period_];
  }

  std::string name_, description_;
  std::size_t channels_, period_ = 0;
  std::array<float, kLanes * kMaxChannels> scale_{}, offset_{};
};

class OneHot final : public TransformOp {
 public:
  OneHot(std::int64_t classes, std::size_t component) : classes_(classes), component_(component) {
    if (classes < 1)
      throw ConfigError(fmt::format("[one_hot] {} classes; expected at least 1", classes));
  }
  std::string name() const override { return "one_hot"; }
  std::string describe() const override {
    return fmt::format("one_hot({}, component {})", classes_, component_);
  }
  std::vector<ComponentSpec> spec(std::vector<ComponentSpec> input) const override {
    if (component_ >= input.size()) {
      throw ConfigError(
          fmt::format("[one_hot] no component {} in {}", component_, to_string(input)));
    }
    input[component_] = {DType::kFloat32, {classes_}};
    return input;
  }
  void apply(Sample& sample, Random&, Worker&) const override {
    Field& label = sample[component_];
    if (label.dims().count() != 1 || !can_store(label.dtype(), DType::kInt32)) {
      throw DataError(fmt::format("expected one label; got {} {}", name_of(label.dtype()),
                                  label.dims().to_string()));
    }
    std::int32_t value = 0;
    convert_values(label.dtype(), label.bytes().data(), DType::kInt32,
                   reinterpret_cast<std::byte*>(&value), 1);
    if (value < 0 || value >= classes_) {
      throw DataError(
          fmt::format("label out of range; expected 0 to {}; got {}", classes_ - 1, value));
    }
    const std::span<std::byte> storage = label.replace(DType::kFloat32, {classes_}).bytes;
    std::memset(storage.data(), 0, storage.size());
    reinterpret_cast<float*>(storage.data())[value] = 1.0f;
  }

 private:
  std::int64_t classes_;
  std::size_t component_;
};

}  // namespace
}  // namespace surefit::data

namespace surefit::transform {

Transform cast(DType dtype) {
  return data::make_op<data::Cast>(dtype);
}

Transform rescale(float scale, float offset) {
  return data::make_op<data::Affine>("rescale", fmt::format("rescale({}, {})", scale, offset),
                                     std::vector<float>{scale}, std::vector<float>{offset});
}

Transform normalise(std::vector<float> mean, std::vector<float> std) {
  if (mean.size() != std.size()) {
    throw ConfigError(fmt::format("[normalise] {} means and {} deviations; expected equally many",
                                  mean.size(), std.size()));
  }
  const std::string text = fmt::format("normalise({}, {})", mean, std);
  std::vector<float> scale, offset;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    if (!(std[i] > 0)) {
      throw ConfigError(
          fmt::format("[normalise] deviation {} of channel {}; expected more than 0", std[i], i));
    }
    scale.push_back(1.0f / std[i]);
    offset.push_back(-mean[i] / std[i]);
  }
  return data::make_op<data::Affine>("normalise", text, std::move(scale), std::move(offset));
}

Transform one_hot(std::int64_t classes, std::size_t component) {
  return data::make_op<data::OneHot>(classes, component);
}

}  // namespace surefit::transform
