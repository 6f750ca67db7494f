// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>

#include "base/check.hpp"
#include "interop/json.hpp"
#include "train/keras_json.hpp"

namespace surefit {
namespace {

// The shape without the batch from Keras's [null, h, w, c].
std::vector<std::int64_t> read_batch_shape(const Json& shape, const JsonWhere& where) {
  require_array(shape, where);
  if (shape.empty()) where.refuse_value("bad shape", "[null, height, width, channels]", shape);
  std::vector<std::int64_t> dims;
  for (std::size_t i = 1; i < shape.size(); ++i) {
    if (shape[i].is_null()) where.at(i).refuse("varying extent", "a fixed extent", "null");
    dims.push_back(require_int(shape[i], where.at(i), 1, 1 << 20));
  }
  return dims;
}

void check_dtype(const Json& config, const JsonWhere& where) {
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

// Keras writes an activation as its name, as null, or as an object: {"class_name": "function",
// "config": name}, or a layer.
std::optional<ConfigValue> read_activation(const Json& value, const JsonWhere& where) {
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return to_config_value(value);
  const std::string& class_name = get_string(require_object(value, where), "class_name", where);
  if (class_name == "function")
    return ConfigValue(require_string(get_field(value, "config", where), where.at("config")));
  where.refuse("unsupported activation", "a name such as \"relu\" (a layer can follow as a layer)",
               class_name);
}

Layer read_layer(const Json& entry, const JsonWhere& where) {
  const std::string& class_name = get_string(entry, "class_name", where);
  const Json& config = get_object(entry, "config", where);
  const JsonWhere at = where.at("config");
  check_dtype(config, at);
  const Json* named = find_field(config, "name", at);
  const std::string name = named == nullptr ? "" : require_string(*named, at.at("name"));
  const Json* flag = find_field(config, "trainable", at);
  const bool trainable = flag == nullptr || require_bool(*flag, at.at("trainable"));
  ConfigMap fields;
  if (class_name == "InputLayer") {
    const Json* shape = find_field(config, "batch_shape", at);
    if (shape == nullptr) shape = find_field(config, "batch_input_shape", at);
    if (shape == nullptr) at.refuse("no batch_shape", "[null, height, width, channels]", "nothing");
    fields.emplace_back("shape", to_config(read_batch_shape(*shape, at.at("batch_shape"))));
  } else {
    for (const auto& [key, value] : config.items()) {
      if (key == "name" || key == "trainable" || key == "dtype") continue;
      if (key == "activation") {
        if (auto activation = read_activation(value, at.at(key)))
          fields.emplace_back(key, std::move(*activation));
        continue;
      }
      fields.emplace_back(key, to_config_value(value));
    }
  }
  try {
    return make_layer_from_config(class_name, name, trainable, fields, where.file() + ": " + name);
  } catch (const ConfigError& error) {
    // A layer's constructor knows its class only; a user with many of them needs the file and the
    // name.
    std::string text = error.what();
    const std::string own = fmt::format("[{}]", class_name);
    if (text.starts_with(own))
      text.replace(0, own.size(), fmt::format("[{}: {}]", where.file(), name));
    throw DataError(text, where.file());
  }
}

// Keras 3.9 writes the defaults of a layer's own call(): they ask for nothing.
bool is_default_argument(const std::string& class_name, const std::string& name,
                         const Json& value) {
  return name == "training" && value.is_boolean() &&
         value.get<bool>() == default_training(class_name);
}

// Arguments of a call that are no inputs would change what it computes.
void refuse_arguments(const std::string& class_name, const Json& kwargs, const JsonWhere& where) {
  for (const auto& [name, value] : require_object(kwargs, where).items()) {
    if (!value.is_null() && !is_default_argument(class_name, name, value))
      where.at(name).refuse_value("unsupported argument of a call", "none but the inputs", value);
  }
}

// All "keras_history": [layer, node, tensor] triples inside one inbound node, in order.
void collect_inputs(const Json& value, const JsonWhere& where,
                    std::vector<std::pair<std::string, std::int64_t>>& out) {
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) collect_inputs(value[i], where.at(i), out);
    return;
  }
  if (value.is_null()) return;
  const Json* class_name = value.is_object() ? find_field(value, "class_name", where) : nullptr;
  if (class_name == nullptr || *class_name != "__keras_tensor__")
    where.refuse_value("unsupported argument of a call", "the output of a layer", value);
  const Json& config = get_object(value, "config", where);
  const JsonWhere at = where.at("config").at("keras_history");
  const Json& history = get_array(config, "keras_history", where.at("config"));
  if (history.size() != 3) at.refuse_value("bad reference", "[layer, node, tensor]", history);
  out.emplace_back(require_string(history[0], at.at(0)),
                   require_int(history[1], at.at(1), 0, 1 << 20));
}

KerasModel read_sequential(const Json& config, const JsonWhere& where) {
  const Json& layers = get_array(config, "layers", where);
  KerasModel model;
  model.sequential = true;
  std::optional<Symbol> last;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const JsonWhere at = where.at("layers").at(i);
    const Layer layer = read_layer(require_object(layers[i], at), at);
    if (!last && layer.class_name() != "InputLayer") {
      const Json* shape = find_field(config, "build_input_shape", where);
      if (shape == nullptr)
        at.refuse("the model does not say its input", "an InputLayer first", layer.class_name());
      last = Input(Shape(read_batch_shape(*shape, where.at("build_input_shape"))));
      model.inputs = {*last};
    }
    try {
      last = last ? layer(*last) : layer(std::vector<Symbol>{});
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("[{}] {}", where.file(), error.what()));
    }
    if (model.inputs.empty()) model.inputs = {*last};
  }
  if (!last) where.at("layers").refuse("no layers", "at least one", "an empty list");
  model.outputs = {*last};
  return model;
}

class FunctionalReader {
 public:
  FunctionalReader(const Json& config, const JsonWhere& where) : config_(config), where_(where) {}

  KerasModel read() {
    const Json& layers = get_array(config_, "layers", where_);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const JsonWhere at = where_.at("layers").at(i);
      const Json& entry = require_object(layers[i], at);
      const Layer layer = read_layer(entry, at);
      std::string name = layer.name();
      if (const Json* outer = find_field(entry, "name", at))
        name = require_string(*outer, at.at("name"));
      if (layers_.contains(name)) at.refuse("two layers of one name", "unique names", name);
      const std::size_t index = entries_.size();
      layers_[name] = index;
      entries_.push_back({layer, name, read_calls(entry, at), {}});
      if (layer.class_name() == "InputLayer")
        entries_[index].symbols.push_back(layer(std::vector<Symbol>{}));
    }
    connect();
    KerasModel model;
    model.inputs = ends("input_layers");
    model.outputs = ends("output_layers");
    return model;
  }

 private:
  using Reference = std::pair<std::string, std::int64_t>;
  struct Entry {
    Layer layer;
    std::string name;
    std::vector<std::vector<Reference>> calls;
    std::vector<Symbol> symbols;  // one per call that is connected
  };

  static std::vector<std::vector<Reference>> read_calls(const Json& entry, const JsonWhere& at) {
    std::vector<std::vector<Reference>> calls;
    const Json* inbound = find_field(entry, "inbound_nodes", at);
    if (inbound == nullptr) return calls;
    require_array(*inbound, at.at("inbound_nodes"));
    for (std::size_t i = 0; i < inbound->size(); ++i) {
      const JsonWhere node_at = at.at("inbound_nodes").at(i);
      const Json& node = require_object((*inbound)[i], node_at);
      calls.emplace_back();
      collect_inputs(get_array(node, "args", node_at), node_at.at("args"), calls.back());
      if (const Json* kwargs = find_field(node, "kwargs", node_at))
        refuse_arguments(get_string(entry, "class_name", at), *kwargs, node_at.at("kwargs"));
      if (calls.back().empty())
        node_at.refuse("a call without inputs", "references to other layers", "none");
    }
    return calls;
  }

  const Symbol* find_symbol(const Reference& reference) const {
    const auto found = layers_.find(reference.first);
    if (found == layers_.end()) {
      where_.refuse("reference to an unknown layer", "the name of a layer", reference.first);
    }
    const Entry& entry = entries_[found->second];
    const auto index = static_cast<std::size_t>(reference.second);
    return index < entry.symbols.size() ? &entry.symbols[index] : nullptr;
  }

  // Calls whose inputs are ready, until nothing changes; what is left waits for itself.
  void connect() {
    bool progress = true, waiting = true;
    while (progress && waiting) {
      progress = waiting = false;
      for (Entry& entry : entries_) {
        while (entry.symbols.size() < entry.calls.size()) {
          std::vector<Symbol> inputs;
          for (const Reference& reference : entry.calls[entry.symbols.size()]) {
            const Symbol* symbol = find_symbol(reference);
            if (symbol == nullptr) break;
            inputs.push_back(*symbol);
          }
          if (inputs.size() < entry.calls[entry.symbols.size()].size()) {
            waiting = true;
            break;
          }
          try {
            entry.symbols.push_back(entry.layer(inputs));
          } catch (const ConfigError& error) {
            throw ConfigError(fmt::format("[{}] {}", where_.file(), error.what()));
          }
          progress = true;
        }
      }
    }
    if (waiting)
      where_.refuse("the layers form a cycle or refer to calls that do not exist", "a graph",
                    "a cycle");
  }

  // Keras writes [["name", 0, 0]], ["name", 0, 0] when there is one, or {"key": ["name", 0, 0]}.
  std::vector<Symbol> ends(std::string_view field) const {
    const JsonWhere at = where_.at(field);
    const Json& given = get_field(config_, field, where_);
    Json list = given;
    if (given.is_object()) {  // in the order of the keys, as Keras flattens them
      list = Json::array();
      for (const auto& [key, triple] : given.items()) list.push_back(triple);
    }
    require_array(list, at);
    std::vector<Symbol> symbols;
    const auto add = [&](const Json& triple, const JsonWhere& here) {
      if (!triple.is_array() || triple.size() != 3)
        here.refuse_value("bad reference", "[layer, node, tensor]", triple);
      const Symbol* symbol = find_symbol(
          {require_string(triple[0], here.at(0)), require_int(triple[1], here.at(1), 0, 1 << 20)});
      if (symbol == nullptr)
        here.refuse_value("reference to a call that does not exist", "an existing call", triple);
      symbols.push_back(*symbol);
    };
    if (!list.empty() && list[0].is_string()) {
      add(list, at);
    } else {
      for (std::size_t i = 0; i < list.size(); ++i) add(list[i], at.at(i));
    }
    return symbols;
  }

  const Json& config_;
  JsonWhere where_;
  std::map<std::string, std::size_t> layers_;
  std::vector<Entry> entries_;
};

// ---- what the model was compiled with

// An object's config without what every loss and metric has, and without what says that nothing
// unusual is asked for.
using Usual = std::vector<std::pair<std::string_view, Json>>;  // null: whatever it is
ConfigMap read_score(const Json& object, const JsonWhere& where, const Usual& usual) {
  const Json& config = get_object(object, "config", where);
  const JsonWhere at = where.at("config");
  check_dtype(config, at);
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

std::optional<CompileOptions> read_compile(const Json& json, std::size_t outputs,
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

}  // namespace

KerasModel model_from_keras_json(const std::string& text, const std::string& file) {
  const Json json = parse_json(text, file);
  const JsonWhere where(file);
  require_object(json, where);
  const std::string& class_name = get_string(json, "class_name", where);
  const Json& config = get_object(json, "config", where);
  KerasModel model;
  if (class_name == "Sequential") {
    model = read_sequential(config, where.at("config"));
  } else if (class_name == "Functional" || class_name == "Model") {
    model = FunctionalReader(config, where.at("config")).read();
  } else {
    where.at("class_name").refuse("unknown kind of model", "Sequential or Functional", class_name);
  }
  model.compile = read_compile(json, model.outputs.size(), where);
  const Json* name = find_field(config, "name", where.at("config"));
  model.name = name == nullptr ? "model" : require_string(*name, where.at("config").at("name"));
  return model;
}

}  // namespace surefit
