// SPDX-License-Identifier: Apache-2.0
// A training step while it is written down: its graph and who owns what lives between calls.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "surefit/step.hpp"

#include "engine/arena.hpp"
#include "nn/loss.hpp"
#include "train/model_impl.hpp"
#include "train/updates.hpp"

namespace surefit {

struct GradientSum::State {
  std::shared_ptr<Model::Impl> model;
  std::unordered_map<std::size_t, std::size_t> offsets;  // floats, by parameter
  std::unique_ptr<Arena> memory;
  std::shared_ptr<bool> fresh = std::make_shared<bool>(true);  // nothing added up yet
  float* data(std::size_t parameter) const;
};

// What each parameter's gradient is, known when the forward pass is complete.
struct Gradients::State {
  TapeImpl* tape = nullptr;
  std::shared_ptr<Model::Impl> model;
  std::vector<ParameterGradient> entries;
};

class TapeImpl {
 public:
  explicit TapeImpl(Convolutions convolutions);

  // The verbs of Tape.
  Traced input(const Shape& shape, DType dtype);
  std::vector<Traced> call(Model& model, const std::vector<Traced>& inputs, bool training);
  LossValue loss(const Loss& loss, const Traced& labels, const Traced& predictions);
  LossValue mean(const Traced& value);
  Gradients gradient(const LossValue& loss, Model& model);
  Traced gradient(const LossValue& loss, const Traced& value);
  void apply(Model& model, const Gradients& gradients);
  void accumulate(GradientSum& sum, const Gradients& gradients);
  Gradients take(GradientSum& sum);
  void output(const std::string& name, const LossValue& loss);
  void output(const std::string& name, const Traced& value);
  void output(const std::string& name, const Gradients& gradients);
  // Gradients -> gradients, when they are known.
  using Change = std::function<void(TapeImpl&, std::vector<ParameterGradient>&)>;
  Gradients changed(const Gradients& gradients, Change change);
  Gradients sum(const Gradients& a, const Gradients& b);
  Traced add_node(std::shared_ptr<const Op> op, const std::vector<Traced>& inputs);
  const ValueType& type(const Traced& value);
  Graph& graph() { return graph_; }

  // Completes the graph: what was put off until the forward pass is known.
  void finish(const LossValue& returned);

  struct Input {
    ValueId id = kNone;
    std::int64_t classes = 0;  // labels must lie below; 0: anything goes
  };
  struct NamedLoss {
    std::string name;
    LossValue loss;
  };
  struct NamedValue {
    std::string name;
    ValueId id = kNone;
    Model::Impl* model = nullptr;  // of a gradient
    std::size_t parameter = 0;
  };
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<LossNodes>& losses() const { return losses_; }
  const std::vector<int>& used_losses() const { return used_losses_; }
  const std::vector<NamedLoss>& loss_outputs() const { return loss_outputs_; }
  const std::vector<NamedValue>& value_outputs() const { return value_outputs_; }
  const std::vector<std::shared_ptr<Model::Impl>>& models() const { return models_; }
  Model::Impl* applied() const { return applied_.get(); }
  const std::vector<std::shared_ptr<GradientSum::State>>& added() const { return added_; }
  const std::vector<std::shared_ptr<GradientSum::State>>& taken() const { return taken_; }
  std::byte* persistent(ValueId id) const;

 private:
  struct Persistent {
    Model::Impl* model = nullptr;
    GradientSum::State* sum = nullptr;
    std::size_t parameter = 0;
    int slot = kNone;
  };
  void require_own(const Traced& value) const;
  LossValue add_loss(const LossNodes& nodes);
  void use(const LossValue& loss);
  ValueId id_of(const Traced& value) const;
  std::vector<ValueId>& parameters_of(const std::shared_ptr<Model::Impl>& model);
  ValueId parameter_value(const std::shared_ptr<Model::Impl>& model, std::size_t index);
  ValueId sum_value(GradientSum::State& sum, std::size_t parameter, const ValueType& type);
  // Roots of the backward pass; emitted before the forward pass is fused.
  std::vector<std::pair<ValueId, ValueId>> seeds(const LossValue& loss);
  void require_new_name(const std::string& name) const;

  Graph graph_;
  Convolutions convolutions_;
  std::uint32_t next_layer_id_ = 0;
  std::vector<Input> inputs_;
  std::vector<LossNodes> losses_;
  std::vector<std::shared_ptr<Model::Impl>> models_;
  std::unordered_map<Model::Impl*, std::vector<ValueId>> parameters_;
  std::unordered_map<ValueId, Persistent> persistents_;
  std::unordered_map<std::string, ValueId> sum_values_;
  std::vector<Network::Built::Update> updates_;
  std::vector<std::function<void()>> later_;
  std::vector<ValueId> seeds_;        // kept until the forward pass is fused
  std::vector<int> used_losses_;      // that gradients or outputs rest on
  std::vector<ValueId> late_values_;  // gradients by values, known at the end
  std::vector<NamedLoss> loss_outputs_;
  std::vector<NamedValue> value_outputs_;
  std::shared_ptr<Model::Impl> applied_;
  std::vector<std::shared_ptr<GradientSum::State>> added_, taken_;
};

}  // namespace surefit
