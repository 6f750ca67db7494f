// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>
#include <variant>

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

std::string name_of(const Json& config, const JsonWhere& at) {
  const Json* name = find_field(config, "name", at);
  return name == nullptr ? "" : require_string(*name, at.at("name"));
}

bool is_trainable(const Json& config, const JsonWhere& at) {
  const Json* flag = find_field(config, "trainable", at);
  return flag == nullptr || require_bool(*flag, at.at("trainable"));
}

bool is_sequential(const std::string& class_name) {
  return class_name == "Sequential";
}
bool is_functional(const std::string& class_name) {
  return class_name == "Functional" || class_name == "Model";
}
bool is_input(const Json& entry, const JsonWhere& where) {
  return get_string(entry, "class_name", where) == "InputLayer";
}

// The model that a part belongs to.
struct Scope {
  std::string path = {};  // "backbone/" inside a model of that name, "" at the top
  bool trainable = true;
};

Layer read_layer(const Json& entry, const JsonWhere& where, const std::string& name,
                 const Scope& scope) {
  const std::string& class_name = get_string(entry, "class_name", where);
  const Json& config = get_object(entry, "config", where);
  const JsonWhere at = where.at("config");
  check_keras_dtype(config, at);
  const bool trainable = is_trainable(config, at) && scope.trainable;
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

// A value of a functional model: an output of the how-manieth call of a layer.
struct Reference {
  std::string layer;
  std::size_t call = 0, output = 0;
};

Reference read_reference(const Json& triple, const JsonWhere& at) {
  if (!triple.is_array() || triple.size() != 3)
    at.refuse_value("bad reference", "[layer, node, tensor]", triple);
  return {require_string(triple[0], at.at(0)),
          static_cast<std::size_t>(require_int(triple[1], at.at(1), 0, 1 << 20)),
          static_cast<std::size_t>(require_int(triple[2], at.at(2), 0, 1 << 20))};
}

// All "keras_history" references inside one inbound node, in order.
void collect_inputs(const Json& value, const JsonWhere& where, std::vector<Reference>& out) {
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) collect_inputs(value[i], where.at(i), out);
    return;
  }
  if (value.is_null()) return;
  const Json* class_name = value.is_object() ? find_field(value, "class_name", where) : nullptr;
  if (class_name == nullptr || *class_name != "__keras_tensor__")
    where.refuse_value("unsupported argument of a call", "the output of a layer", value);
  const Json& config = get_object(value, "config", where);
  out.push_back(read_reference(get_array(config, "keras_history", where.at("config")),
                               where.at("config").at("keras_history")));
}

// What stands in a layer's place: a layer, or a model made of parts.
struct Part;
using Chain = std::vector<Part>;  // a Sequential, without its input
struct Part {
  std::string name;
  std::variant<Layer, Chain, KerasModel> what;
};

// One file. Models inside of models are taken apart: a call of one calls its layers.
class ModelReader {
 public:
  explicit ModelReader(const std::string& file) : file_(file) {}

  KerasModel read(const Json& json, const JsonWhere& where) {
    const std::string& class_name = get_string(json, "class_name", where);
    const Json& config = get_object(json, "config", where);
    count_names(config, where.at("config"));
    if (is_sequential(class_name)) return read_sequential(config, where.at("config"));
    if (is_functional(class_name)) return read_functional(config, where.at("config"), {});
    where.at("class_name").refuse("unknown kind of model", "Sequential or Functional", class_name);
  }

 private:
  // A hostile file: models that call models twice each grow without end.
  static constexpr std::size_t kMostCalls = 200'000;

  struct Entry {
    Part part;
    std::vector<std::vector<Reference>> calls;
    std::vector<std::vector<Symbol>> outputs;  // of the calls that are connected
  };
  using Entries = std::map<std::string, Entry>;

  void count_names(const Json& config, const JsonWhere& where) {
    const Json& layers = get_array(config, "layers", where);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const JsonWhere at = where.at("layers").at(i);
      const std::string& class_name = get_string(require_object(layers[i], at), "class_name", at);
      const Json& inner = get_object(layers[i], "config", at);
      ++name_counts_[name_of(inner, at.at("config"))];
      if (is_sequential(class_name) || is_functional(class_name))
        count_names(inner, at.at("config"));
    }
  }

  Part read_part(const Json& entry, const JsonWhere& where, const Scope& scope) {
    const std::string& class_name = get_string(entry, "class_name", where);
    const Json& config = get_object(entry, "config", where);
    const JsonWhere at = where.at("config");
    std::string name = name_of(config, at);
    const Scope inside{scope.path + name + "/", scope.trainable && is_trainable(config, at)};
    if (is_sequential(class_name)) return {name, read_chain(config, at, inside)};
    if (is_functional(class_name)) return {name, read_functional(config, at, inside)};
    // Layers of different models may share a name; it then says where they are.
    const std::string full = name_counts_[name] > 1 ? scope.path + name : name;
    return {name, read_layer(entry, where, full, scope)};
  }

  Chain read_chain(const Json& config, const JsonWhere& where, const Scope& scope) {
    const Json& layers = get_array(config, "layers", where);
    if (layers.empty()) where.at("layers").refuse("no layers", "at least one", "an empty list");
    Chain chain;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const JsonWhere at = where.at("layers").at(i);
      if (i == 0 && is_input(layers[i], at)) continue;
      chain.push_back(read_part(require_object(layers[i], at), at, scope));
    }
    return chain;
  }

  KerasModel read_sequential(const Json& config, const JsonWhere& where) {
    const Chain chain = read_chain(config, where, {});
    KerasModel model;
    model.inputs = {sequential_input(config, where, chain)};
    model.outputs = call(chain, model.inputs);
    if (model.outputs.size() != 1)
      where.refuse("a chain that does not end in one output", "one output",
                   fmt::format("{}", model.outputs.size()));
    model.sequential = is_plain(chain);
    return model;
  }

  Symbol sequential_input(const Json& config, const JsonWhere& where, const Chain& chain) {
    const Json& first = get_array(config, "layers", where)[0];
    const JsonWhere at = where.at("layers").at(0);
    if (is_input(first, at)) {
      return read_layer(first, at, name_of(get_object(first, "config", at), at.at("config")),
                        {})(std::vector<Symbol>{});
    }
    if (const Json* shape = find_field(config, "build_input_shape", where))
      return Input(Shape(read_batch_shape(*shape, where.at("build_input_shape"))));
    if (const auto* model = std::get_if<KerasModel>(&chain[0].what);
        model != nullptr && model->inputs.size() == 1)
      return Input(model->inputs[0].shape());
    at.refuse("the model does not say its input", "an InputLayer first",
              get_string(first, "class_name", at));
  }

  // Whether every part is a layer, or a chain of them.
  static bool is_plain(const Chain& chain) {
    for (const Part& part : chain) {
      if (std::holds_alternative<KerasModel>(part.what)) return false;
      if (const auto* inner = std::get_if<Chain>(&part.what); inner && !is_plain(*inner))
        return false;
    }
    return true;
  }

  KerasModel read_functional(const Json& config, const JsonWhere& where, const Scope& scope) {
    const Json& layers = get_array(config, "layers", where);
    Entries entries;
    std::vector<Entry*> order;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const JsonWhere at = where.at("layers").at(i);
      const Json& json = require_object(layers[i], at);
      Entry entry{read_part(json, at, scope), read_calls(json, at), {}};
      std::string name = entry.part.name;
      if (const Json* outer = find_field(json, "name", at))
        name = require_string(*outer, at.at("name"));
      if (is_input(json, at))
        entry.outputs.push_back({std::get<Layer>(entry.part.what)(std::vector<Symbol>{})});
      const auto [found, fresh] = entries.emplace(name, std::move(entry));
      if (!fresh) at.refuse("two layers of one name", "unique names", name);
      order.push_back(&found->second);
    }
    connect(entries, order, where);
    KerasModel model;
    model.inputs = ends(entries, config, "input_layers", where);
    model.outputs = ends(entries, config, "output_layers", where);
    return model;
  }

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

  static const Symbol* find_symbol(const Entries& entries, const Reference& reference,
                                   const JsonWhere& where) {
    const auto found = entries.find(reference.layer);
    if (found == entries.end())
      where.refuse("reference to an unknown layer", "the name of a layer", reference.layer);
    const auto& calls = found->second.outputs;
    if (reference.call >= calls.size() || reference.output >= calls[reference.call].size())
      return nullptr;
    return &calls[reference.call][reference.output];
  }

  // Calls whose inputs are ready, until nothing changes; what is left waits for itself.
  void connect(const Entries& entries, const std::vector<Entry*>& order, const JsonWhere& where) {
    bool progress = true, waiting = true;
    while (progress && waiting) {
      progress = waiting = false;
      for (Entry* entry : order) {
        while (entry->outputs.size() < entry->calls.size()) {
          const auto& references = entry->calls[entry->outputs.size()];
          std::vector<Symbol> inputs;
          for (const Reference& reference : references) {
            const Symbol* symbol = find_symbol(entries, reference, where);
            if (symbol == nullptr) break;
            inputs.push_back(*symbol);
          }
          if (inputs.size() < references.size()) {
            waiting = true;
            break;
          }
          entry->outputs.push_back(call(entry->part, inputs));
          progress = true;
        }
      }
    }
    if (waiting)
      where.refuse("the layers form a cycle or refer to calls that do not exist", "a graph",
                   "a cycle");
  }

  // Keras writes [["name", 0, 0]], ["name", 0, 0] when there is one, or {"key": ["name", 0, 0]}.
  static std::vector<Symbol> ends(const Entries& entries, const Json& config,
                                  std::string_view field, const JsonWhere& where) {
    const JsonWhere at = where.at(field);
    const Json& given = get_field(config, field, where);
    Json list = given;
    if (given.is_object()) {  // in the order of the keys, as Keras flattens them
      list = Json::array();
      for (const auto& [key, triple] : given.items()) list.push_back(triple);
    }
    require_array(list, at);
    std::vector<Symbol> symbols;
    const auto add = [&](const Json& triple, const JsonWhere& here) {
      const Symbol* symbol = find_symbol(entries, read_reference(triple, here), where);
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

  std::vector<Symbol> call(const Part& part, const std::vector<Symbol>& inputs) {
    try {
      if (const auto* chain = std::get_if<Chain>(&part.what)) return call(*chain, inputs);
      if (const auto* model = std::get_if<KerasModel>(&part.what))
        return call(*model, part.name, inputs);
      return {call(std::get<Layer>(part.what), inputs)};
    } catch (const ConfigError& error) {
      const std::string text = error.what(), own = fmt::format("[{}] ", file_);
      throw ConfigError(text.starts_with(own) ? text : own + text);
    }
  }

  std::vector<Symbol> call(const Chain& chain, std::vector<Symbol> values) {
    for (const Part& part : chain) values = call(part, values);
    return values;
  }

  std::vector<Symbol> call(const KerasModel& model, const std::string& name,
                           const std::vector<Symbol>& inputs) {
    if (inputs.size() != model.inputs.size())
      throw ConfigError(fmt::format("[{}] a model of {} inputs; got {}", name, model.inputs.size(),
                                    inputs.size()));
    std::map<const void*, Symbol> now;  // what stands for a value of the model in this call
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].shape() != model.inputs[i].shape())
        throw ConfigError(fmt::format("[{}] input {}; expected {}; got {}", name, i,
                                      model.inputs[i].shape().to_string(),
                                      inputs[i].shape().to_string()));
      now.emplace(model.inputs[i].identity(), inputs[i]);
    }
    for (const Symbol::Node* node : order_symbols(model.outputs)) {
      if (now.contains(node)) continue;
      if (node->inputs.empty())
        throw ConfigError(fmt::format("[{}] an input is needed but not among the model's", name));
      std::vector<Symbol> values;
      for (const Symbol& input : node->inputs) values.push_back(now.at(input.identity()));
      now.emplace(node, call(node->layer, values));
    }
    std::vector<Symbol> outputs;
    for (const Symbol& output : model.outputs) outputs.push_back(now.at(output.identity()));
    return outputs;
  }

  Symbol call(const Layer& layer, const std::vector<Symbol>& inputs) {
    if (++calls_ > kMostCalls)
      JsonWhere(file_).refuse("too large a model", fmt::format("at most {} calls", kMostCalls),
                              "more");
    return layer(inputs);
  }

  std::string file_;
  std::map<std::string, int> name_counts_;
  std::size_t calls_ = 0;
};

}  // namespace

KerasModel model_from_keras_json(const std::string& text, const std::string& file) {
  const Json json = parse_json(text, file);
  const JsonWhere where(file);
  require_object(json, where);
  KerasModel model = ModelReader(file).read(json, where);
  model.compile = compile_from_keras_json(json, model.outputs.size(), where);
  const Json& config = get_object(json, "config", where);
  model.name = name_of(config, where.at("config"));
  if (model.name.empty()) model.name = "model";
  return model;
}

}  // namespace surefit
