// SPDX-License-Identifier: Apache-2.0
// What a layer tells the graph. A layer declares parameters and emits nodes; it never allocates and
// never runs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "surefit/layers.hpp"

#include "engine/packing.hpp"
#include "graph/graph.hpp"

namespace surefit {

struct ParameterSpec {
  std::string name = {};  // "kernel"; full name "conv2d/kernel"
  Shape shape = {};       // Keras's
  Object initializer = {"Zeros"};
  bool trainable = true;                        // false: a running statistic
  std::shared_ptr<const Packing> packing = {};  // none: stored as it is
  std::optional<Object> regularizer = {}, constraint = {};
};

// Hands a layer its place in the graph.
class LayerBuilder {
 public:
  virtual ~LayerBuilder() = default;
  virtual bool training() const = 0;
  virtual Convolutions convolutions() const = 0;
  // Samples that batch normalization takes its statistics of; 0: the whole batch.
  virtual std::int64_t ghost_batch() const { return 0; }
  virtual const std::string& name() const = 0;
  virtual bool trainable() const = 0;
  virtual std::uint32_t layer_id() const = 0;  // stable, for keyed randomness
  virtual Graph& graph() = 0;
  // The persistent value of a parameter, shared by all calls of the layer.
  virtual ValueId parameter(const ParameterSpec& spec) = 0;
  // A node that changes persistent memory (running statistics): emitted behind the backward pass,
  // once per step, and only in training.
  virtual void update(std::shared_ptr<const Op> op, std::vector<ValueId> inputs) = 0;

  const ValueType& type(ValueId id) { return graph().value(id).type; }
  std::vector<ValueId> emit(std::shared_ptr<const Op> op, std::vector<ValueId> inputs,
                            Phase phase = Phase::kForward);
  ValueId emit1(std::shared_ptr<const Op> op, std::vector<ValueId> inputs);
};

class LayerImpl {
 public:
  virtual ~LayerImpl() = default;
  // Shape without the batch; throws ConfigError (the caller adds the layer's name).
  virtual Shape infer(std::span<const Shape> inputs) const = 0;
  virtual ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const = 0;
};

// The layer of a Keras class and config, for model files. Throws ConfigError naming `where`.
Layer make_layer_from_config(const std::string& class_name, const std::string& name, bool trainable,
                             const ConfigMap& config, const std::string& where);
std::vector<std::string_view> layer_class_names();  // of the library
bool is_builtin_layer(std::string_view class_name);
// The default of `training` in the class's call() in Keras, where that has one that says nothing.
std::optional<bool> default_training(std::string_view class_name);

// Helpers that many layers share.
void require_inputs(std::span<const Shape> inputs, std::size_t count, std::size_t rank,
                    std::string_view what);
// Extent and leading padding of a window along one axis, as Keras: "valid" or "same".
struct WindowAxis {
  int out = 0;
  int pad_begin = 0;
};
WindowAxis window_axis(std::int64_t in, int kernel, int stride, int dilation,
                       const std::string& padding);

}  // namespace surefit
