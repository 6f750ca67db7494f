// SPDX-License-Identifier: Apache-2.0
#include "worker/arguments.hpp"

#include <charconv>
#include <cstring>
#include <fmt/format.h>

#include "surefit/zoo.hpp"

#include "base/env.hpp"
#include "base/philox.hpp"
#include "interop/idx.hpp"
#include "interop/npy.hpp"
#include "train/model_impl.hpp"

namespace surefit {
namespace {

std::vector<std::string> split_text(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t at = text.find(separator); at != std::string::npos;
       at = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

ConfigValue parse_value(const std::string& text) {
  if (text == "true" || text == "True") return ConfigValue(true);
  if (text == "false" || text == "False") return ConfigValue(false);
  std::int64_t whole = 0;
  const char* end = text.data() + text.size();
  if (const auto [at, error] = std::from_chars(text.data(), end, whole);
      error == std::errc{} && at == end) {
    return ConfigValue(whole);
  }
  double real = 0;
  if (const auto [at, error] = std::from_chars(text.data(), end, real);
      error == std::errc{} && at == end) {
    return ConfigValue(real);
  }
  return ConfigValue(text);
}

std::int64_t parse_count(const std::string& text, const std::string& what, std::int64_t max) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || at != end || value < 1 || value > max) {
    throw ConfigError(
        fmt::format("[{}] expected a number from 1 to {}; got '{}'", what, max, text));
  }
  return value;
}

// Bytes are brightness; networks want them near one.
Dataset scale_bytes(const Dataset& samples) {
  return samples.map(
      [](Sample& sample) {
        const Dims dims = sample[0].dims();
        const auto replaced = sample[0].replace(DType::kFloat32, dims);
        const auto* from = reinterpret_cast<const std::uint8_t*>(replaced.old_bytes.data());
        auto* to = reinterpret_cast<float*>(replaced.bytes.data());
        for (std::size_t i = 0; i < dims.count(); ++i)
          to[i] = static_cast<float>(from[i]) * (1.0f / 255.0f);
      },
      MapOptions{.num_parallel_calls = AUTOTUNE, .name = "scale"});
}

Dataset open_idx(const std::string& directory, DataSplit split) {
  LabeledImages loaded = load_idx_directory(
      Env::posix(), directory, split == DataSplit::kTrain ? Split::kTrain : Split::kTest);
  return scale_bytes(
      Dataset::from_tensor_slices(std::move(loaded.images), std::move(loaded.labels)));
}

Dataset open_npz(const std::string& path) {
  const NpzFile file = NpzFile::open(Env::posix(), path);
  for (const char* name : {"x", "y"}) {
    if (!file.contains(name)) {
      throw DataError(fmt::format("[{}] no array '{}'; expected arrays x (pictures) and y (labels)",
                                  path, name),
                      path);
    }
  }
  Tensor x = file.read("x"), y = file.read("y");
  if (x.shape().rank() == 0 || y.shape().rank() == 0 || x.shape()[0] != y.shape()[0]) {
    throw DataError(fmt::format("[{}] x and y differ in length: {} and {}", path,
                                x.shape().to_string(), y.shape().to_string()),
                    path);
  }
  return Dataset::from_tensor_slices(std::move(x), std::move(y));
}

// Pictures of noise around a pattern of their class: learnable, and the same on every machine.
// With `masks` the label is a picture of classes: each pixel is its brightness cut into equal
// parts.
Dataset make_synthetic(const std::string& rest, DataSplit split, bool masks) {
  const std::vector<std::string> parts = split_text(rest, ',');
  if (parts.size() != 3) {
    throw ConfigError(
        fmt::format("[data] expected synthetic:HxWxC,CLASSES,COUNT; got 'synthetic:{}'", rest));
  }
  const Shape shape = parse_input_shape(parts[0]);
  const std::int64_t classes = parse_count(parts[1], "synthetic classes", 1000000);
  const std::int64_t count = parse_count(parts[2], "synthetic count", std::int64_t{1} << 40);
  const std::uint64_t offset = split == DataSplit::kTrain ? 0 : std::uint64_t{1} << 40;
  return Dataset::range(static_cast<std::uint64_t>(count))
      .map(
          [shape, classes, offset, masks](Sample& sample) {
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
          MapOptions{.num_parallel_calls = AUTOTUNE, .name = "synthetic"});
}

}  // namespace

NamedArguments parse_named(const std::string& text, const std::string& what) {
  NamedArguments result;
  const std::size_t colon = text.find(':');
  result.name = text.substr(0, colon);
  if (result.name.empty())
    throw ConfigError(fmt::format("[{}] expected a name; got '{}'", what, text));
  if (colon == std::string::npos) return result;
  for (const std::string& part : split_text(text.substr(colon + 1), ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw ConfigError(
          fmt::format("[{}] expected name:key=value,key=value; got '{}'", what, text));
    }
    result.arguments.emplace_back(part.substr(0, equals), parse_value(part.substr(equals + 1)));
  }
  return result;
}

Shape parse_input_shape(const std::string& text) {
  const std::vector<std::string> parts = split_text(text, 'x');
  if (parts.size() != 3)
    throw ConfigError(fmt::format("[input] expected HxWxC such as 32x32x3; got '{}'", text));
  return Shape{parse_count(parts[0], "input height", 1 << 16),
               parse_count(parts[1], "input width", 1 << 16),
               parse_count(parts[2], "input channels", 1 << 16)};
}

Model make_model(const std::string& model, const std::string& input, std::int64_t classes) {
  if (model.size() > 5 && model.ends_with(".json")) {
    if (!input.empty() || classes != 0) {
      throw ConfigError(
          "[model] --input and --classes belong to zoo models; a .json file has its own");
    }
    return Model::load(model);
  }
  ZooOptions options;
  if (!input.empty()) options.input = parse_input_shape(input);
  options.classes = classes;
  return zoo_model(model, options);
}

Dataset open_data(const std::string& data, DataSplit split) {
  const std::size_t colon = data.find(':');
  const std::string scheme = data.substr(0, colon),
                    rest = colon == std::string::npos ? "" : data.substr(colon + 1);
  if (scheme == "fashion-mnist" && rest.empty())
    return open_idx("/usr/share/datasets/fashion-mnist", split);
  if (scheme == "idx" && !rest.empty()) return open_idx(rest, split);
  if (scheme == "npz" && !rest.empty()) return open_npz(rest);
  if (scheme == "synthetic" && !rest.empty()) return make_synthetic(rest, split, false);
  if (scheme == "synthetic-masks" && !rest.empty()) return make_synthetic(rest, split, true);
  throw ConfigError(
      fmt::format("[data] unknown data '{}'; expected fashion-mnist, idx:DIR, npz:FILE or "
                  "synthetic:HxWxC,CLASSES,COUNT, synthetic-masks:HxWxC,CLASSES,COUNT",
                  data));
}

Loss default_loss(const Model& model, const Dataset& samples) {
  const Network& network = model.impl().network;
  const Shape& output = network.calls()[static_cast<std::size_t>(network.output_calls()[0])].shape;
  const auto spec = samples.element_spec();
  if (spec.size() < 2)
    throw DataError("[data] expected pictures and labels; got one component per sample");
  const std::int64_t classes = output.rank() == 0 ? 0 : output[output.rank() - 1];
  const std::size_t rows = classes == 0 ? 0 : output.count() / static_cast<std::size_t>(classes);
  const bool whole = spec[1].dims.count() == rows && spec[1].dtype != DType::kFloat32 &&
                     spec[1].dtype != DType::kFloat64;
  // Without a softmax at the end the scores are logits.
  const Program program(network, nullptr, Program::Purpose::kPredict);
  const Value& last = program.graph().value(program.outputs()[0]);
  const bool logits =
      last.producer == kNone || program.graph().node(last.producer).op->kind() != "softmax";
  if (classes > 1) {
    if (whole) return SparseCategoricalCrossentropy{.from_logits = logits};
    if (spec[1].dims.count() == output.count())
      return CategoricalCrossentropy{.from_logits = logits};
  }
  // One number per sample or pixel with whole labels: a probability.
  if (classes == 1 && whole) return BinaryCrossentropy{};
  return MeanSquaredError{};
}

}  // namespace surefit
