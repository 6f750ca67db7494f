// SPDX-License-Identifier: Apache-2.0
#include "interop/json.hpp"
#include "train/keras_json.hpp"

namespace surefit {
namespace {

// Initializers and the like are objects with a module in Keras.
Json to_json(const ConfigValue& value);
Json object_to_json(const ConfigMap& map) {
  Json json = Json::object();
  for (const auto& [key, value] : map) json[key] = to_json(value);
  if (find(map, "class_name") != nullptr && map.size() == 2) {
    json["module"] = "keras.initializers";
    json["registered_name"] = nullptr;
  }
  return json;
}

Json to_json(const ConfigValue& value) {
  struct Visitor {
    Json operator()(std::monostate) const { return nullptr; }
    Json operator()(bool v) const { return v; }
    Json operator()(std::int64_t v) const { return v; }
    Json operator()(double v) const { return v; }
    Json operator()(const std::string& v) const { return v; }
    Json operator()(const ConfigList& list) const {
      Json json = Json::array();
      for (const ConfigValue& item : list) json.push_back(to_json(item));
      return json;
    }
    Json operator()(const ConfigMap& map) const { return object_to_json(map); }
  };
  return std::visit(Visitor{}, value.data);
}

Json dtype_policy() {
  return {{"module", "keras"},
          {"class_name", "DTypePolicy"},
          {"config", {{"name", "float32"}}},
          {"registered_name", nullptr}};
}

Json batch_shape(const Shape& shape) {
  Json json = Json::array({nullptr});
  for (const std::int64_t extent : shape.dims()) json.push_back(extent);
  return json;
}

Json write_layer(const NamedLayer& named, const Shape& shape) {
  Json config;
  if (named.layer.class_name() == "InputLayer") {
    config = {{"batch_shape", batch_shape(shape)},
              {"dtype", "float32"},
              {"sparse", false},
              {"ragged", false},
              {"name", named.name}};
  } else {
    config = object_to_json(named.layer.config());
    config["name"] = named.name;
    config["trainable"] = named.layer.trainable();
    config["dtype"] = dtype_policy();
  }
  const std::string& class_name = named.layer.class_name();
  Json module = "keras.layers", registered;
  if (!is_builtin_layer(class_name)) {
    // As Keras writes classes that its users registered.
    module = nullptr;
    registered = "Custom>" + class_name;
  }
  return {{"module", std::move(module)},
          {"class_name", class_name},
          {"config", std::move(config)},
          {"registered_name", std::move(registered)}};
}

Json write_functional(const Model::Impl& model) {
  const Network& network = model.network;
  // The how-manieth call of its layer each call is.
  std::vector<int> node_index(network.calls().size(), 0);
  std::vector<int> seen(network.layers().size(), 0);
  for (std::size_t i = 0; i < network.calls().size(); ++i) {
    node_index[i] = seen[static_cast<std::size_t>(network.calls()[i].layer)]++;
  }
  const auto name_of_call = [&](int call) {
    return network
        .layers()[static_cast<std::size_t>(network.calls()[static_cast<std::size_t>(call)].layer)]
        .name;
  };
  const auto reference = [&](int call) {
    return Json::array({name_of_call(call), node_index[static_cast<std::size_t>(call)], 0});
  };
  Json layers = Json::array();
  for (std::size_t l = 0; l < network.layers().size(); ++l) {
    Json inbound = Json::array();
    Shape shape;
    for (const LayerCall& call : network.calls()) {
      if (call.layer != static_cast<int>(l)) continue;
      shape = call.shape;
      if (call.inputs.empty()) continue;
      Json tensors = Json::array();
      for (const int input : call.inputs) {
        tensors.push_back(
            {{"class_name", "__keras_tensor__"},
             {"config",
              {{"shape", batch_shape(network.calls()[static_cast<std::size_t>(input)].shape)},
               {"dtype", "float32"},
               {"keras_history", reference(input)}}}});
      }
      // Layers of several inputs take them as one list.
      const Json args = call.inputs.size() == 1 ? tensors : Json::array({tensors});
      inbound.push_back({{"args", args}, {"kwargs", Json::object()}});
    }
    Json entry = write_layer(network.layers()[l], shape);
    entry["name"] = network.layers()[l].name;
    entry["inbound_nodes"] = std::move(inbound);
    layers.push_back(std::move(entry));
  }
  Json inputs = Json::array(), outputs = Json::array();
  for (const int call : network.input_calls()) inputs.push_back(reference(call));
  for (const int call : network.output_calls()) outputs.push_back(reference(call));
  return {{"module", "keras.src.models.functional"},
          {"class_name", "Functional"},
          {"config",
           {{"name", model.name},
            {"trainable", true},
            {"layers", std::move(layers)},
            {"input_layers", std::move(inputs)},
            {"output_layers", std::move(outputs)}}},
          {"registered_name", "Functional"}};
}

Json write_sequential(const Model::Impl& model) {
  Json layers = Json::array();
  const Network& network = model.network;
  for (const LayerCall& call : network.calls()) {
    layers.push_back(
        write_layer(network.layers()[static_cast<std::size_t>(call.layer)], call.shape));
  }
  const Json shape =
      batch_shape(network.calls()[static_cast<std::size_t>(network.input_calls()[0])].shape);
  return {{"module", "keras"},
          {"class_name", "Sequential"},
          {"config",
           {{"name", model.name},
            {"trainable", true},
            {"dtype", dtype_policy()},
            {"layers", std::move(layers)},
            {"build_input_shape", shape}}},
          {"registered_name", nullptr},
          {"build_config", {{"input_shape", shape}}}};
}

}  // namespace

std::string model_to_keras_json(const Model::Impl& model) {
  return dump_json(model.is_sequential ? write_sequential(model) : write_functional(model), 1) +
         "\n";
}

}  // namespace surefit
