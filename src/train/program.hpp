// SPDX-License-Identifier: Apache-2.0
// A model's graph for one purpose, with the handles that the outside needs.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "graph/graph.hpp"
#include "nn/loss.hpp"
#include "nn/metric.hpp"
#include "nn/ops/weighting.hpp"
#include "optim/optimizer.hpp"
#include "train/lossy.hpp"
#include "train/network.hpp"
#include "train/parameters.hpp"

namespace surefit {

// What an output of the model is trained for.
struct Target {
  Loss loss;
  double weight = 1;
  std::vector<Metric> metrics = {};
  std::string name = {};  // of the output; only where a model has several
};

struct Compiled {
  Optimizer optimizer;
  std::vector<Target> targets;  // as the network's outputs
};

// Whose loss counts how much.
struct Weighting {
  bool samples = false;       // the data bring a weight for each sample
  ClassWeights classes = {};  // by the label of the only output
};

class Program {
 public:
  enum class Purpose { kTrain, kEvaluate, kPredict };
  // `compiled` may be null for kPredict only.
  Program(const Network& network, const Compiled* compiled, Purpose purpose,
          Convolutions convolutions = kDefaultConvolutions, const Weighting& weighting = {},
          const Lossy& lossy = {});

  const Graph& graph() const { return graph_; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  // Of each output; none in a program that only predicts.
  const std::vector<ValueId>& labels() const { return labels_; }
  const std::vector<LabelSpec>& label_specs() const { return label_specs_; }
  ValueId sample_weights() const { return sample_weights_; }  // kNone: all count alike
  ValueId loss() const { return loss_; }
  // The losses of the single outputs before their weights, where there are several.
  const std::vector<ValueId>& target_losses() const { return target_losses_; }
  const std::vector<ValueId>& metrics() const { return metrics_; }  // target after target
  const std::vector<ValueId>& outputs() const { return outputs_; }
  // Memory of a persistent value.
  std::byte* persistent(ValueId id, const ParameterStore& store) const;

 private:
  // A root of the backward pass and its gradient.
  using Seed = std::pair<ValueId, ValueId>;
  void add_targets(const Network::Built& built, const Compiled& compiled,
                   const Weighting& weighting, bool training, std::vector<Seed>& seeds);
  LossNodes add_target(const Target& target, ValueId prediction, const Weighting& weighting,
                       bool training);
  // The loss per sample with the penalties of regularized parameters.
  ValueId add_penalties(const Network& network, const Network::Built& built, ValueId loss);
  // Pictures that backward nodes read of the forward pass are rounded where they are made, so that
  // they can wait in 16 bits; the predictions stay as they are, as Keras advises.
  void round_saved(Half format, const std::vector<ValueId>& predictions);
  void add_backward(const Network& network, const Network::Built& built,
                    const std::vector<Seed>& seeds, const Optimizer& optimizer);

  struct Persistent {
    std::size_t parameter = 0;
    int slot = kNone;  // kNone: the parameter itself
  };
  Graph graph_;
  std::vector<ValueId> inputs_, labels_, target_losses_, metrics_, outputs_;
  ValueId sample_weights_ = kNone, loss_ = kNone;
  std::vector<LabelSpec> label_specs_;
  std::unordered_map<ValueId, Persistent> persistents_;
};

}  // namespace surefit
