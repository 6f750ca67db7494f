// SPDX-License-Identifier: Apache-2.0
// What a model was compiled with, from Keras's JSON.
#include <algorithm>
#include <optional>

#include "interop/json.hpp"
#include "train/keras_json.hpp"

namespace surefit {

void check_keras_dtype(const Json& config, const JsonWhere& where) {
  const Json* dtype = find_field(config, "dtype", where);
  if (dtype == nullptr) return;
  std::string name;
  if (dtype->is_string()) {
    name = dtype->get<std::string>();
  } else {
    require_object(*dtype, where.at("dtype"));
    name = get_string(get_object(*dtype, "config", where.at("dtype")), "name",
                      where.at("dtype").at("config"));
  }
  if (name != "float32") where.at("dtype").refuse("unsupported dtype", "float32", name);
}

namespace {

// An object's config without what every loss and metric has, and without what says that nothing
// unusual is asked for.
using Usual = std::vector<std::pair<std::string_view, Json>>;  // null: whatever it is
ConfigMap read_score(const Json& object, const JsonWhere& where, const Usual& usual) {
  const Json& config = get_object(object, "config", where);
  const JsonWhere at = where.at("config");
  check_keras_dtype(config, at);
  ConfigMap fields;
  for (const auto& [key, value] : config.items()) {
    if (key == "dtype" || value.is_null()) continue;
    const auto same = std::find_if(usual.begin(), usual.end(),
                                   [&key = key](const auto& each) { return each.first == key; });
    if (same == usual.end()) {
      fields.emplace_back(key, to_config_value(value));
    } else if (!same->second.is_null() && value != same->second) {
      at.at(key).refuse_value("unsupported", dump_json(same->second), value);
    }
  }
  return fields;
}

Loss read_loss(const Json& loss, const JsonWhere& where) {
  if (loss.is_string()) return Loss(loss.get<std::string>());
  const std::string& class_name = get_string(require_object(loss, where), "class_name", where);
  if (class_name == "function")
    return Loss(require_string(get_field(loss, "config", where), where.at("config")));
  Usual usual = {{"name", nullptr}, {"reduction", "sum_over_batch_size"}};
  if (class_name != "Dice") usual.emplace_back("axis", -1);  // whose axes are a choice
  return Loss::from_config(class_name, read_score(loss, where, usual));
}

void read_metrics(const Json& metrics, const JsonWhere& where, std::vector<Metric>& out) {
  if (metrics.is_null()) return;
  if (metrics.is_array()) {  // Keras nests one list for each output
    for (std::size_t i = 0; i < metrics.size(); ++i) read_metrics(metrics[i], where.at(i), out);
  } else if (metrics.is_string()) {
    out.emplace_back(metrics.get<std::string>());
  } else {
    const std::string& class_name = get_string(require_object(metrics, where), "class_name", where);
    Usual usual = {{"curve", "ROC"},
                   {"summation_method", "interpolation"},
                   {"multi_label", false},
                   {"from_logits", false},
                   {"sparse_y_true", true},
                   {"sparse_y_pred", false},
                   {"axis", -1}};
    if (class_name == "BinaryAccuracy") usual.emplace_back("threshold", 0.5);
    out.push_back(Metric::from_config(class_name, read_score(metrics, where, usual)));
  }
}

Optimizer read_optimizer(const Json& optimizer, const JsonWhere& where) {
  if (optimizer.is_string()) return Optimizer(optimizer.get<std::string>());
  const std::string& class_name = get_string(require_object(optimizer, where), "class_name", where);
  const Json& config = get_object(optimizer, "config", where);
  return Optimizer::from_config(class_name, std::get<ConfigMap>(to_config_value(config).data));
}

// A list with one entry for each output of the model; what is no list stands for all of them.
const Json& of_output(const Json& value, std::size_t output, std::size_t outputs,
                      const JsonWhere& where) {
  if (!value.is_array()) return value;
  if (value.size() != outputs)
    where.refuse_value("wrong length", fmt::format("{} as the model has outputs", outputs), value);
  return value[output];
}

}  // namespace

std::optional<CompileOptions> compile_from_keras_json(const Json& json, std::size_t outputs,
                                                      const JsonWhere& whole) {
  const Json* config = find_field(json, "compile_config", whole);
  if (config == nullptr) return std::nullopt;
  const JsonWhere where = whole.at("compile_config");
  require_object(*config, where);
  const Json* loss = find_field(*config, "loss", where);
  if (loss == nullptr) return std::nullopt;
  const Json* weights = find_field(*config, "loss_weights", where);
  const Json* metrics = find_field(*config, "metrics", where);
  if (weights != nullptr && outputs == 1)
    where.at("loss_weights").refuse_value("unsupported for one output", "null", *weights);
  if (const Json* value = find_field(*config, "weighted_metrics", where))
    where.at("weighted_metrics").refuse_value("unsupported", "null", *value);
  CompileOptions options;
  try {
    for (std::size_t i = 0; i < outputs; ++i) {
      OutputOptions output{
          .loss = read_loss(of_output(*loss, i, outputs, where.at("loss")), where.at("loss"))};
      if (weights != nullptr)
        output.weight = require_number(of_output(*weights, i, outputs, where.at("loss_weights")),
                                       where.at("loss_weights"));
      if (metrics != nullptr) {
        read_metrics(outputs == 1 ? *metrics : of_output(*metrics, i, outputs, where.at("metrics")),
                     where.at("metrics"), output.metrics);
      }
      options.outputs.push_back(std::move(output));
    }
    if (outputs == 1) {
      options.loss = options.outputs[0].loss;
      options.metrics = options.outputs[0].metrics;
      options.outputs.clear();
    }
    if (const Json* optimizer = find_field(*config, "optimizer", where))
      options.optimizer = read_optimizer(*optimizer, where.at("optimizer"));
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("[{}: compile_config] {}", whole.file(), error.what()));
  }
  return options;
}

}  // namespace surefit
