// SPDX-License-Identifier: Apache-2.0
#include "train/network.hpp"

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <unordered_set>

#include "base/check.hpp"
#include "nn/ops/structural.hpp"

namespace surefit {

// Iterative: a hostile model file may chain a hundred thousand layers.
std::vector<const Symbol::Node*> order_symbols(const std::vector<Symbol>& outputs) {
  std::vector<const Symbol::Node*> order;
  std::unordered_set<const void*> done;
  std::vector<std::pair<const Symbol::Node*, std::size_t>> stack;
  for (const Symbol& output : outputs) {
    if (!done.contains(output.identity())) stack.emplace_back(&output.node(), 0);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node->inputs.size()) {
        const Symbol& input = node->inputs[next++];
        if (!done.contains(input.identity())) stack.emplace_back(&input.node(), 0);
        continue;
      }
      if (done.insert(node).second) order.push_back(node);
      stack.pop_back();
    }
  }
  return order;
}

namespace {

// Emits into a graph on behalf of one layer call.
class CallBuilder final : public LayerBuilder {
 public:
  CallBuilder(Graph& graph, bool training, Convolutions convolutions, std::int64_t ghost_batch,
              const NamedLayer& layer, std::uint32_t layer_id, std::vector<Parameter>& parameters,
              std::unordered_map<std::string, int>& index, Network::Built& built)
      : graph_(graph),
        training_(training),
        convolutions_(convolutions),
        ghost_batch_(ghost_batch),
        layer_(layer),
        layer_id_(layer_id),
        parameters_(parameters),
        index_(index),
        built_(built) {}

  bool training() const override { return training_; }
  Convolutions convolutions() const override { return convolutions_; }
  std::int64_t ghost_batch() const override { return ghost_batch_; }
  const std::string& name() const override { return layer_.name; }
  bool trainable() const override { return layer_.layer.trainable(); }
  std::uint32_t layer_id() const override { return layer_id_; }
  Graph& graph() override { return graph_; }

  ValueId parameter(const ParameterSpec& spec) override {
    const std::string full = layer_.name + "/" + spec.name;
    double count = 1;
    for (const std::int64_t extent : spec.shape.dims()) count *= static_cast<double>(extent);
    if (count > 0x1p40)
      throw ConfigError(fmt::format("{} is too large: {}", spec.name, spec.shape.to_string()));
    const auto [found, fresh] = index_.try_emplace(full, static_cast<int>(parameters_.size()));
    if (fresh) parameters_.push_back({full, spec, spec.trainable && trainable()});
    const auto at = static_cast<std::size_t>(found->second);
    std::vector<ValueId>& values = built_.parameters;
    values.resize(std::max(values.size(), at + 1), kNone);
    if (values[at] == kNone) {
      ValueType type;
      type.shape = Shape{static_cast<std::int64_t>(parameters_[at].stored_count())};
      type.batched = false;
      values[at] = graph_.add_persistent(full, type, Category::kWeights);
    }
    return values[at];
  }

  void update(std::shared_ptr<const Op> op, std::vector<ValueId> inputs) override {
    if (training_) built_.updates.push_back({std::move(op), std::move(inputs), layer_.name});
  }

 private:
  Graph& graph_;
  bool training_;
  Convolutions convolutions_;
  std::int64_t ghost_batch_;
  const NamedLayer& layer_;
  std::uint32_t layer_id_;
  std::vector<Parameter>& parameters_;
  std::unordered_map<std::string, int>& index_;
  Network::Built& built_;
};

// Layers pack their parameters as the layout of the input and the convolution's extents advise. A
// layer that is called more than once has one packing, so its calls must look alike.
ValueId in_common_layout(Graph& graph, ValueId id, const std::string& layer) {
  const bool picture = graph.value(id).type.shape.rank() == 3;
  return graph.in_layout(id, picture ? Layout::kBlocked : Layout::kPlain, layer, Phase::kForward);
}

}  // namespace

std::string snake_case(const std::string& class_name) {
  std::string name;
  for (std::size_t i = 0; i < class_name.size(); ++i) {
    const auto here = static_cast<unsigned char>(class_name[i]);
    const bool upper = std::isupper(here) != 0;
    const bool after_lower =
        i > 0 && std::islower(static_cast<unsigned char>(class_name[i - 1])) != 0;
    const bool before_lower = i > 0 && i + 1 < class_name.size() &&
                              std::isupper(static_cast<unsigned char>(class_name[i - 1])) != 0 &&
                              std::islower(static_cast<unsigned char>(class_name[i + 1])) != 0;
    if (upper && (after_lower || before_lower)) name += '_';
    name += static_cast<char>(std::tolower(here));
  }
  return name;
}

Network::Network(const std::vector<Symbol>& inputs, const std::vector<Symbol>& outputs) {
  if (inputs.empty() || outputs.empty()) {
    throw ConfigError("[model] a model needs at least one input and one output");
  }
  std::unordered_map<const void*, int> call_of, layer_of;
  std::unordered_set<std::string> names;
  std::vector<const Symbol::Node*> order = order_symbols(outputs);
  for (const Symbol::Node* node : order) {
    if (!node->layer.name().empty() && !layer_of.contains(node->layer.identity()) &&
        !names.insert(node->layer.name()).second) {
      throw ConfigError(fmt::format("[model] two layers are called '{}'; names must be unique",
                                    node->layer.name()));
    }
    if (!node->layer.name().empty()) layer_of[node->layer.identity()] = kNone;
  }
  layer_of.clear();
  std::unordered_map<std::string, int> counts;
  for (const Symbol::Node* node : order) {
    const auto [found, fresh] =
        layer_of.try_emplace(node->layer.identity(), static_cast<int>(layers_.size()));
    if (fresh) {
      std::string name = node->layer.name();
      while (name.empty()) {
        const std::string stem = snake_case(node->layer.class_name());
        const int number = counts[stem]++;
        std::string candidate = number == 0 ? stem : fmt::format("{}_{}", stem, number);
        if (names.insert(candidate).second) name = std::move(candidate);
      }
      layers_.push_back({name, node->layer});
    }
    LayerCall call;
    call.layer = found->second;
    for (const Symbol& input : node->inputs) call.inputs.push_back(call_of.at(input.identity()));
    call.shape = node->shape;
    call_of[node] = static_cast<int>(calls_.size());
    calls_.push_back(std::move(call));
  }
  const auto find_call = [&](const Symbol& symbol) {
    const auto found = call_of.find(symbol.identity());
    if (found == call_of.end())
      throw ConfigError("[model] an input is not connected to any output");
    return found->second;
  };
  for (const Symbol& input : inputs) inputs_.push_back(find_call(input));
  for (const Symbol& output : outputs) outputs_.push_back(find_call(output));
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    const bool listed =
        std::find(inputs_.begin(), inputs_.end(), static_cast<int>(i)) != inputs_.end();
    if (calls_[i].inputs.empty() && !listed) {
      throw ConfigError(
          fmt::format("[model] input '{}' is needed but not listed among the model's inputs",
                      layers_[static_cast<std::size_t>(calls_[i].layer)].name));
    }
  }
  // A first build finds the parameters; their order never changes after that.
  Graph probe(structural_ops());
  emit(probe, true, {}, parameters_, {});
}

Network::Built Network::build(Graph& graph, bool training, Convolutions convolutions,
                              const Placement& placement) const {
  std::vector<Parameter> known = parameters_;
  return emit(graph, training, convolutions, known, placement);
}

Network::Built Network::emit(Graph& graph, bool training, Convolutions convolutions,
                             std::vector<Parameter>& parameters, const Placement& placement) const {
  Built built;
  std::unordered_map<std::string, int> index;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    index[parameters[i].name] = static_cast<int>(i);
  built.parameters = placement.parameters;
  built.parameters.resize(parameters.size(), kNone);
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    const LayerCall& call = calls_[i];
    const NamedLayer& layer = layers_[static_cast<std::size_t>(call.layer)];
    if (call.inputs.empty() && !placement.inputs.empty()) {
      const auto at = std::find(inputs_.begin(), inputs_.end(), static_cast<int>(i));
      built.call_outputs.push_back(
          placement.inputs[static_cast<std::size_t>(at - inputs_.begin())]);
      continue;
    }
    if (call.inputs.empty()) {
      ValueType type;
      type.shape = call.shape;
      built.call_outputs.push_back(graph.add_input(layer.name, type));
      continue;
    }
    const bool shared = std::count_if(calls_.begin(), calls_.end(), [&](const LayerCall& other) {
                          return other.layer == call.layer;
                        }) > 1;
    std::vector<ValueId> inputs;
    for (const int input : call.inputs) {
      const ValueId id = built.call_outputs[static_cast<std::size_t>(input)];
      inputs.push_back(shared ? in_common_layout(graph, id, layer.name) : id);
    }
    CallBuilder builder(
        graph, training, shared ? Convolutions::kExact : convolutions, placement.ghost_batch, layer,
        placement.first_layer_id + static_cast<std::uint32_t>(i), parameters, index, built);
    try {
      built.call_outputs.push_back(layer.layer.impl().build(builder, inputs));
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("[{}] {}", layer.name, error.what()));
    }
  }
  for (const int call : inputs_)
    built.inputs.push_back(built.call_outputs[static_cast<std::size_t>(call)]);
  for (const int call : outputs_)
    built.outputs.push_back(built.call_outputs[static_cast<std::size_t>(call)]);
  built.parameters.resize(parameters.size(), kNone);
  return built;
}

}  // namespace surefit
