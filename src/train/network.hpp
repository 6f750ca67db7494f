// SPDX-License-Identifier: Apache-2.0
// A model's layers in execution order with unique names, and the graphs made from them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/graph.hpp"
#include "nn/layer.hpp"

namespace surefit {

// One call of a layer. Layers called several times share their parameters.
struct LayerCall {
  int layer = 0;            // index into Network::layers()
  std::vector<int> inputs;  // calls
  Shape shape;              // of the output, without the batch
};

struct NamedLayer {
  std::string name;  // unique
  Layer layer;
};

// A parameter as the whole model knows it.
struct Parameter {
  std::string name;  // "conv2d/kernel"
  ParameterSpec spec;
  bool trainable = true;  // its own flag and its layer's
  std::size_t stored_count() const {
    return spec.packing ? spec.packing->stored_count() : spec.shape.count();
  }
};

// How a model enters a graph: what is there already when it is called in the middle of one, and
// over how many samples it normalises.
struct Placement {
  std::vector<ValueId> inputs = {};      // instead of inputs of its own
  std::vector<ValueId> parameters = {};  // as parameters(); kNone or none: not there yet
  std::uint32_t first_layer_id = 0;      // so that two calls draw different random numbers
  std::int64_t ghost_batch = 0;          // samples that batch normalization looks at; 0: the batch
};

class Network {
 public:
  Network(const std::vector<Symbol>& inputs, const std::vector<Symbol>& outputs);

  const std::vector<NamedLayer>& layers() const { return layers_; }
  const std::vector<LayerCall>& calls() const { return calls_; }
  const std::vector<int>& input_calls() const { return inputs_; }
  const std::vector<int>& output_calls() const { return outputs_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

  struct Built {
    std::vector<ValueId> inputs, outputs;
    std::vector<ValueId> parameters;  // as parameters(); kNone where a graph does not use one
    std::vector<ValueId> call_outputs;
    // Nodes for the end of a training step.
    struct Update {
      std::shared_ptr<const Op> op;
      std::vector<ValueId> inputs;
      std::string layer;
    };
    std::vector<Update> updates;
  };
  // Emits the forward nodes of every layer into `graph`.
  Built build(Graph& graph, bool training, Convolutions convolutions,
              const Placement& placement = {}) const;

 private:
  // Appends parameters that are not known yet.
  Built emit(Graph& graph, bool training, Convolutions convolutions,
             std::vector<Parameter>& parameters, const Placement& placement) const;

  std::vector<NamedLayer> layers_;
  std::vector<LayerCall> calls_;
  std::vector<int> inputs_, outputs_;
  std::vector<Parameter> parameters_;
};

// The symbols behind the outputs, inputs before their readers.
std::vector<const Symbol::Node*> order_symbols(const std::vector<Symbol>& outputs);

// "GlobalAveragePooling2D" -> "global_average_pooling2d", as Keras names layers.
std::string snake_case(const std::string& class_name);

}  // namespace surefit
