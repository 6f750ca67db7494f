// SPDX-License-Identifier: Apache-2.0
#include "surefit/model.hpp"

#include <cmath>
#include <fmt/ranges.h>

#include "base/check.hpp"
#include "base/env.hpp"
#include "ckpt/checkpoint.hpp"
#include "interop/safetensors.hpp"
#include "train/inference.hpp"
#include "train/keras_json.hpp"
#include "train/ladder.hpp"
#include "train/model_impl.hpp"
#include "train/trainer.hpp"

namespace surefit {
namespace {

std::vector<Symbol> chain(const Shape& input, const std::vector<Layer>& layers) {
  Symbol first = Input(input), last = first;
  for (const Layer& layer : layers) last = layer(last);
  return {first, last};
}

// Arrays become batches; a dataset of samples too, one of batches stays as it is.
Dataset batches_of(Dataset data, const FitOptions& options, bool shuffle) {
  if (shuffle) data = data.shuffle(std::max<std::uint64_t>(1, data.cardinality().value_or(1)));
  return data.batch(static_cast<std::uint64_t>(options.batch_size));
}

void check_batch_size(const FitOptions& options) {
  if (options.batch_size < 1) {
    throw ConfigError(fmt::format("[batch_size] expected at least 1; got {}", options.batch_size));
  }
}

}  // namespace

const std::vector<double> History::series(const std::string& name) const {
  std::vector<double> values;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] != name) continue;
    for (const auto& epoch : epochs) values.push_back(epoch[i]);
  }
  return values;
}

const Compiled& Model::Impl::require_compiled(const char* what) const {
  if (!compiled)
    throw ConfigError(fmt::format("[{}] the model is not compiled; call compile() first", what));
  return *compiled;
}

Model::Model(const std::vector<Symbol>& inputs, const std::vector<Symbol>& outputs,
             std::string name)
    : impl_(std::make_shared<Impl>(inputs, outputs, std::move(name), false)) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

Sequential::Sequential(const Shape& input, const std::vector<Layer>& layers, std::string name) {
  const std::vector<Symbol> ends = chain(input, layers);
  impl_ = std::make_shared<Impl>(std::vector{ends[0]}, std::vector{ends[1]}, std::move(name), true);
}

const std::string& Model::name() const {
  return impl_->name;
}
std::string Model::to_json() const {
  return model_to_keras_json(*impl_);
}

Model Model::from_json(const std::string& text, const std::string& file) {
  KerasModel parsed = model_from_keras_json(text, file);
  Model model;
  model.impl_ =
      std::make_shared<Impl>(parsed.inputs, parsed.outputs, parsed.name, parsed.sequential);
  if (parsed.compile) model.compile(std::move(*parsed.compile));
  return model;
}

Model Model::load(const std::string& path) {
  return from_json(read_file(Env::posix(), path), path);
}

void Model::Impl::follow_schedule() {
  const LearningRate& rate = compiled->optimizer.impl().learning_rate();
  if (rate.scheduled()) learning_rate = rate.at(static_cast<std::int64_t>(iterations));
}

void Model::Impl::finish_averaging() {
  if (compiled->optimizer.impl().averages_at_end() && iterations > 0) parameters.use_averages();
}

namespace {

// The names of a model's outputs: those of their layers, with a number where one has several.
std::vector<std::string> names_of_outputs(const Network& network) {
  std::vector<std::string> names;
  for (const int call : network.output_calls()) {
    const auto layer =
        static_cast<std::size_t>(network.calls()[static_cast<std::size_t>(call)].layer);
    const std::string& stem = network.layers()[layer].name;
    std::string name = stem;
    for (int number = 1; std::find(names.begin(), names.end(), name) != names.end(); ++number)
      name = fmt::format("{}_{}", stem, number);
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<Target> targets_of(CompileOptions& options, const Network& network) {
  const std::vector<std::string> names = names_of_outputs(network);
  std::vector<Target> targets;
  if (options.outputs.empty() && names.size() == 1) {
    targets.push_back({std::move(options.loss), 1, std::move(options.metrics), {}});
    return targets;
  }
  if (options.outputs.size() != names.size()) {
    throw ConfigError(fmt::format(
        "[compile] expected one entry of `outputs` for each output of the model ({}); got {}",
        fmt::join(names, ", "), options.outputs.size()));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    OutputOptions& output = options.outputs[i];
    if (!std::isfinite(output.weight))
      throw ConfigError(fmt::format("[compile] the weight of output '{}' is not finite", names[i]));
    targets.push_back({std::move(output.loss), output.weight, std::move(output.metrics),
                       names.size() > 1 ? names[i] : ""});
  }
  return targets;
}

}  // namespace

void Model::compile(CompileOptions options) {
  std::vector<Target> targets = targets_of(options, impl_->network);
  impl_->compiled.emplace(Compiled{std::move(options.optimizer), std::move(targets)});
  impl_->parameters.allocate_slots(impl_->compiled->optimizer.impl());
  impl_->learning_rate = impl_->compiled->optimizer.impl().learning_rate().at(0);
  impl_->iterations = 0;
  ++impl_->compilations;
  impl_->factored = false;
}

History Model::fit(const Dataset& data, const FitOptions& options) {
  return Trainer(*impl_, data, options).run();
}

History Model::fit(const Tensor& x, const Tensor& y, const FitOptions& options) {
  check_batch_size(options);
  return fit(batches_of(Dataset::from_tensor_slices(x, y), options, options.shuffle), options);
}

History Model::fit(const Tensor& x, const Tensor& y, const Tensor& sample_weight,
                   const FitOptions& options) {
  check_batch_size(options);
  return fit(batches_of(Dataset::from_tensor_slices(x, y, sample_weight), options, options.shuffle),
             options);
}

Logs Model::evaluate(const Dataset& data, const FitOptions& options) {
  return evaluate_model(*impl_, data, options);
}

Logs Model::evaluate(const Tensor& x, const Tensor& y, const FitOptions& options) {
  check_batch_size(options);
  return evaluate(batches_of(Dataset::from_tensor_slices(x, y), options, false), options);
}

Tensor Model::confusion_matrix(const Dataset& data, const FitOptions& options) {
  return count_confusions(*impl_, data, options);
}

Tensor Model::predict(const Tensor& x, const FitOptions& options) {
  check_batch_size(options);
  const auto batch = static_cast<std::uint64_t>(options.batch_size);
  return std::move(predict(Dataset::from_tensor_slices(x).batch(batch), options)[0]);
}

std::vector<Tensor> Model::predict(const Dataset& data, const FitOptions& options) {
  return predict_model(*impl_, data, options);
}

MemoryReport Model::memory_plan(const FitOptions& options) const {
  check_batch_size(options);
  return plan_training(*impl_, options, true).report;
}

std::int64_t Model::largest_batch(const FitOptions& options) const {
  return largest_training_batch(*impl_, options);
}

void Model::initialize(std::uint64_t seed) {
  impl_->parameters.initialize(seed);
}

std::vector<std::string> Model::output_names() const {
  return names_of_outputs(impl_->network);
}

std::vector<std::string> Model::parameter_names() const {
  std::vector<std::string> names;
  for (const Parameter& parameter : impl_->network.parameters()) names.push_back(parameter.name);
  return names;
}

Tensor Model::parameter(const std::string& name) const {
  const int index = impl_->parameters.find(name);
  if (index == kNone) throw ConfigError(fmt::format("[model] no parameter '{}'", name));
  return impl_->parameters.get(static_cast<std::size_t>(index));
}

void Model::set_parameter(const std::string& name, const Tensor& value) {
  const int index = impl_->parameters.find(name);
  if (index == kNone) throw ConfigError(fmt::format("[model] no parameter '{}'", name));
  impl_->parameters.set(static_cast<std::size_t>(index), value);
}

void Model::save_weights(const std::string& path) const {
  save_model_weights(*impl_, path);
}

void save_model_weights(const Model::Impl& model, const std::string& path) {
  const ParameterStore& store = model.parameters;
  std::vector<SafetensorsSpec> specs;
  for (std::size_t i = 0; i < store.count(); ++i) {
    specs.push_back({store.parameter(i).name, DType::kFloat32, store.parameter(i).spec.shape});
  }
  write_file_atomically(Env::posix(), path, [&](WritableFile& file) {
    SafetensorsWriter writer(file, specs);
    for (std::size_t i = 0; i < store.count(); ++i)
      store.read_pieces(i,
                        [&](std::span<const float> piece) { writer.append(std::as_bytes(piece)); });
    writer.finish();
  });
}

void Model::load_weights(const std::string& path) {
  ParameterStore& store = impl_->parameters;
  const SafetensorsFile file = SafetensorsFile::open(Env::posix(), path);
  for (std::size_t i = 0; i < store.count(); ++i) {
    const Parameter& parameter = store.parameter(i);
    if (!file.contains(parameter.name)) {
      throw DataError(fmt::format("[{}] no tensor '{}'; the weights belong to another model", path,
                                  parameter.name),
                      path);
    }
    const SafetensorsEntry& entry = file.entry(parameter.name);
    if (entry.shape != parameter.spec.shape || entry.dtype != DType::kFloat32) {
      throw DataError(fmt::format("[{}] tensor '{}' does not fit; expected float32 {}; got {} {}",
                                  path, parameter.name, parameter.spec.shape.to_string(),
                                  name_of(entry.dtype), entry.shape.to_string()),
                      path);
    }
  }
  // A checkpoint holds more than weights.
  const bool checkpoint = file.contains(kRecordTensor);
  for (const std::string& name : file.names()) {
    if (store.find(name) == kNone && !checkpoint) {
      throw DataError(fmt::format("[{}] tensor '{}' has no place in this model", path, name), path);
    }
  }
  // Once to its end before anything changes: a disk may fail anywhere.
  std::vector<std::byte> room(1 << 18);
  for (std::size_t i = 0; i < store.count(); ++i) {
    const std::string& name = store.parameter(i).name;
    const std::uint64_t bytes = file.entry(name).bytes;
    for (std::uint64_t at = 0; at < bytes; at += room.size()) {
      const auto count = std::min<std::uint64_t>(room.size(), bytes - at);
      file.read_part(name, at, std::span(room).first(static_cast<std::size_t>(count)));
    }
  }
  for (std::size_t i = 0; i < store.count(); ++i) {
    store.write_pieces(i, [&](std::size_t begin, std::span<float> piece) {
      file.read_part(store.parameter(i).name, begin * sizeof(float), std::as_writable_bytes(piece));
    });
  }
}

}  // namespace surefit
