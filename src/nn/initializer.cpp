// SPDX-License-Identifier: Apache-2.0
#include "nn/initializer.hpp"

#include <array>
#include <cmath>
#include <fmt/format.h>
#include <numbers>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/philox.hpp"
#include "engine/kernels/table.hpp"

namespace surefit {
namespace {

struct Fans {
  double in = 1, out = 1;
};

// Keras: the receptive field times the last two axes.
Fans fans_of(const Shape& shape) {
  if (shape.rank() == 0) return {};
  if (shape.rank() == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  double field = 1;
  for (std::size_t axis = 0; axis + 2 < shape.rank(); ++axis)
    field *= static_cast<double>(shape[axis]);
  return {field * static_cast<double>(shape[shape.rank() - 2]),
          field * static_cast<double>(shape[shape.rank() - 1])};
}

// One stream of random words, one by one and by the vector kernel.
struct Stream {
  Philox one;
  kernels::PhiloxStream words;
  Stream(std::uint64_t seed, std::uint32_t parameter)
      : one(seed, Purpose::kInit, parameter, 0, 0),
        words(kernels::philox_stream(seed, Purpose::kInit, parameter, 0, 0)) {}
};

// Elements of a parameter from `begin` on.
struct Elements {
  std::size_t begin = 0;
  std::span<float> values;
};

// Two standard normals from two words (Box and Muller), in double so that bits do not hang on float
// libm paths.
double normal(const Philox& stream, std::uint64_t index) {
  const PhiloxBlock words = stream.block(index);
  const double u = (static_cast<double>(words[0]) + 0.5) * 0x1p-32;
  const double v = static_cast<double>(words[1]) * 0x1p-32;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

void fill_uniform(const Stream& stream, double low, double high, const Elements& elements) {
  std::array<std::uint32_t, 1024> words;
  const std::span<float> values = elements.values;
  for (std::size_t begin = 0; begin < values.size(); begin += words.size()) {
    const std::size_t count = std::min(words.size(), values.size() - begin);
    const auto first = static_cast<std::int64_t>(elements.begin + begin);
    kernels::table().noise.words(stream.words, first, first + static_cast<std::int64_t>(count),
                                 words.data());
    for (std::size_t i = 0; i < count; ++i) {
      const float uniform = static_cast<float>(words[i] >> 8) * 0x1p-24f;  // as Philox::uniform
      values[begin + i] = static_cast<float>(low + (high - low) * static_cast<double>(uniform));
    }
  }
}

void fill_normal(const Stream& stream, double mean, double deviation, const Elements& elements) {
  for (std::size_t i = 0; i < elements.values.size(); ++i) {
    elements.values[i] =
        static_cast<float>(mean + deviation * normal(stream.one, elements.begin + i));
  }
}

// Redraws beyond two deviations; each element has its own run of blocks, so elements stay
// independent.
void fill_truncated(const Stream& stream, double mean, double deviation, const Elements& elements) {
  for (std::size_t i = 0; i < elements.values.size(); ++i) {
    double draw = 3;
    for (std::uint64_t attempt = 0; std::abs(draw) > 2; ++attempt)
      draw = normal(stream.one, (elements.begin + i) * 64 + attempt % 64);
    elements.values[i] = static_cast<float>(mean + deviation * draw);
  }
}

void fill_scaled(const Stream& stream, const Shape& shape, double scale, const std::string& mode,
                 const std::string& distribution, const Elements& values) {
  const Fans fans = fans_of(shape);
  const double fan = mode == "fan_in"    ? fans.in
                     : mode == "fan_out" ? fans.out
                                         : (fans.in + fans.out) / 2;
  const double variance = scale / std::max(1.0, fan);
  if (distribution == "uniform") {
    const double limit = std::sqrt(3 * variance);
    fill_uniform(stream, -limit, limit, values);
  } else if (distribution == "untruncated_normal") {
    fill_normal(stream, 0, std::sqrt(variance), values);
  } else {
    // The constant restores the variance that truncation at two deviations takes away, as in Keras.
    fill_truncated(stream, 0, std::sqrt(variance) / 0.87962566103423978, values);
  }
}

// Rows or columns, whichever are fewer, of a matrix of normals, each made orthogonal to those
// before it (Gram and Schmidt, twice, since once leaves what rounding brought back in). The matrix
// is Keras's: all axes but the last, by the last.
void fill_orthogonal(const Stream& stream, const Shape& shape, double gain,
                     std::span<float> values) {
  if (shape.rank() < 2) {
    throw ConfigError(fmt::format("[Orthogonal] expected a parameter of at least 2 axes; got {}",
                                  shape.to_string()));
  }
  const auto columns = static_cast<std::size_t>(shape[shape.rank() - 1]);
  const std::size_t rows = values.size() / columns;
  const bool tall = rows >= columns;
  const std::size_t vectors = tall ? columns : rows, length = tall ? rows : columns;
  const auto element = [&](std::size_t vector, std::size_t i) -> float& {
    return tall ? values[i * columns + vector] : values[vector * columns + i];
  };
  const auto scale = [&](std::vector<double>& vector) {
    double squares = 0;
    for (const double x : vector) squares += x * x;
    for (double& x : vector) x /= std::sqrt(squares);
  };
  std::vector<double> current(length);
  for (std::size_t v = 0; v < vectors; ++v) {
    for (std::size_t i = 0; i < length; ++i) current[i] = normal(stream.one, i * vectors + v);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t earlier = 0; earlier < v; ++earlier) {
        double along = 0;
        for (std::size_t i = 0; i < length; ++i)
          along += current[i] * static_cast<double>(element(earlier, i));
        for (std::size_t i = 0; i < length; ++i)
          current[i] -= along * static_cast<double>(element(earlier, i));
      }
      scale(current);
    }
    for (std::size_t i = 0; i < length; ++i) element(v, i) = static_cast<float>(current[i]);
  }
  for (float& value : values) value = static_cast<float>(gain * static_cast<double>(value));
}

void fill_identity(const Shape& shape, double gain, const Elements& elements) {
  if (shape.rank() != 2) {
    throw ConfigError(
        fmt::format("[Identity] expected a parameter of 2 axes; got {}", shape.to_string()));
  }
  const auto columns = static_cast<std::size_t>(shape[1]);
  for (std::size_t i = 0; i < elements.values.size(); ++i) {
    const std::size_t at = elements.begin + i;
    elements.values[i] = at / columns == at % columns ? static_cast<float>(gain) : 0.0f;
  }
}

std::string text(const Object& object, std::string_view key, const std::string& fallback) {
  const ConfigValue* value = find(object.config, key);
  std::string result = fallback;
  if (value != nullptr && !value->is_null())
    from_config(*value, object.class_name + "." + std::string(key), result);
  return result;
}

bool is_orthogonal(const std::string& name) {
  return name == "Orthogonal" || name == "orthogonal" || name == "OrthogonalInitializer";
}

}  // namespace

bool initializes_as_a_whole(const Object& initializer) {
  return is_orthogonal(initializer.class_name);
}

void initialize(const Object& initializer, const Shape& shape, std::uint64_t seed,
                std::uint32_t parameter_id, std::size_t begin, std::span<float> piece) {
  const std::string& name = initializer.class_name;
  const Elements values{begin, piece};
  const double own_seed = initializer.number("seed", -1);
  const Stream stream(own_seed >= 0 ? static_cast<std::uint64_t>(own_seed) : seed, parameter_id);
  const auto is = [&](std::string_view camel, std::string_view snake) {
    return name == camel || name == snake;
  };
  const auto constant = [&](double value) {
    for (float& element : piece) element = static_cast<float>(value);
  };
  if (is("Zeros", "zeros")) return constant(0);
  if (is("Ones", "ones")) return constant(1);
  if (is("Constant", "constant")) return constant(initializer.number("value", 0));
  if (is("GlorotUniform", "glorot_uniform"))
    return fill_scaled(stream, shape, 1, "fan_avg", "uniform", values);
  if (is("GlorotNormal", "glorot_normal"))
    return fill_scaled(stream, shape, 1, "fan_avg", "truncated_normal", values);
  if (is("HeUniform", "he_uniform"))
    return fill_scaled(stream, shape, 2, "fan_in", "uniform", values);
  if (is("HeNormal", "he_normal"))
    return fill_scaled(stream, shape, 2, "fan_in", "truncated_normal", values);
  if (is("LecunUniform", "lecun_uniform"))
    return fill_scaled(stream, shape, 1, "fan_in", "uniform", values);
  if (is("LecunNormal", "lecun_normal"))
    return fill_scaled(stream, shape, 1, "fan_in", "truncated_normal", values);
  if (is("VarianceScaling", "variance_scaling")) {
    return fill_scaled(stream, shape, initializer.number("scale", 1),
                       text(initializer, "mode", "fan_in"),
                       text(initializer, "distribution", "truncated_normal"), values);
  }
  if (is("RandomUniform", "random_uniform")) {
    return fill_uniform(stream, initializer.number("minval", -0.05),
                        initializer.number("maxval", 0.05), values);
  }
  if (is("RandomNormal", "random_normal")) {
    return fill_normal(stream, initializer.number("mean", 0), initializer.number("stddev", 0.05),
                       values);
  }
  if (is("TruncatedNormal", "truncated_normal")) {
    return fill_truncated(stream, initializer.number("mean", 0), initializer.number("stddev", 0.05),
                          values);
  }
  if (is_orthogonal(name)) {
    SUREFIT_CHECK(piece.size() == shape.count(), "{} of {} elements", piece.size(), shape.count());
    return fill_orthogonal(stream, shape, initializer.number("gain", 1), piece);
  }
  if (is("Identity", "identity") || name == "IdentityInitializer")
    return fill_identity(shape, initializer.number("gain", 1), values);
  throw ConfigError(
      fmt::format("[initializer] unknown class '{}'; expected one of: Zeros, Ones, Constant, "
                  "GlorotUniform, GlorotNormal, HeUniform, "
                  "HeNormal, LecunUniform, LecunNormal, VarianceScaling, RandomUniform, "
                  "RandomNormal, TruncatedNormal, Orthogonal, Identity",
                  name));
}

}  // namespace surefit
