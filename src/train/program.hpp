// SPDX-License-Identifier: Apache-2.0
// A model's graph for one purpose, with the handles that the outside needs.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "graph/graph.hpp"
#include "nn/loss.hpp"
#include "nn/metric.hpp"
#include "optim/optimizer.hpp"
#include "train/lossy.hpp"
#include "train/network.hpp"
#include "train/parameters.hpp"

namespace surefit {

struct Compiled {
  Optimizer optimizer;
  Loss loss;
  std::vector<Metric> metrics;
};

class Program {
 public:
  enum class Purpose { kTrain, kEvaluate, kPredict };
  // `compiled` may be null for kPredict only.
  Program(const Network& network, const Compiled* compiled, Purpose purpose,
          const ConvPolicy& policy = {}, const Lossy& lossy = {});

  const Graph& graph() const { return graph_; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  ValueId labels() const { return labels_; }
  const LabelSpec& label_spec() const { return label_spec_; }
  ValueId loss() const { return loss_; }
  const std::vector<ValueId>& metrics() const { return metrics_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  // Memory of a persistent value.
  std::byte* persistent(ValueId id, const ParameterStore& store) const;

 private:
  // The loss per sample with the penalties of regularized parameters.
  ValueId add_penalties(const Network& network, const Network::Built& built, ValueId loss);
  // What backward nodes read of the forward pass is rounded where it is made, so that it can wait
  // in 16 bits; the prediction stays as it is, as Keras advises.
  void round_saved(Half format, ValueId prediction);
  void add_backward(const Network& network, const Network::Built& built, const LossNodes& loss,
                    const Optimizer& optimizer);

  struct Persistent {
    std::size_t parameter = 0;
    int slot = kNone;  // kNone: the parameter itself
  };
  Graph graph_;
  std::vector<ValueId> inputs_, metrics_, outputs_;
  ValueId labels_ = kNone, loss_ = kNone;
  LabelSpec label_spec_;
  std::unordered_map<ValueId, Persistent> persistents_;
};

}  // namespace surefit
