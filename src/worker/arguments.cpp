// SPDX-License-Identifier: Apache-2.0
#include "worker/arguments.hpp"

#include <charconv>
#include <fmt/format.h>

#include "surefit/zoo.hpp"

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

CompileOptions compile_options(const Model& model, const Dataset& samples,
                               const ScoreArguments& given) {
  const std::optional<Compiled>& file = model.impl().compiled;
  CompileOptions options;
  if (!given.optimizer.empty()) {
    const NamedArguments named = parse_named(given.optimizer, "--optimizer");
    options.optimizer = Optimizer::from_config(named.name, named.arguments);
  } else if (file) {
    options.optimizer = file->optimizer;
  }
  if (file && file->targets.size() > 1 && given.loss.empty()) {
    for (const Target& target : file->targets)
      options.outputs.push_back({target.loss, target.weight, target.metrics});
    return options;
  }
  if (!given.loss.empty()) {
    const NamedArguments named = parse_named(given.loss, "--loss");
    options.loss = Loss::from_config(named.name, named.arguments);
  } else {
    options.loss = file ? file->targets[0].loss : default_loss(model, samples);
  }
  if (given.metrics.empty() && file) {
    options.metrics = file->targets[0].metrics;
    return options;
  }
  const bool classes = options.loss.name().find("crossentropy") != std::string::npos;
  for (const std::string& metric :
       given.metrics.empty() ? std::vector<std::string>{"accuracy"} : given.metrics) {
    if (metric.empty() || metric == "none" || (metric == "accuracy" && !classes)) continue;
    options.metrics.emplace_back(metric);
  }
  return options;
}

}  // namespace surefit
