// SPDX-License-Identifier: Apache-2.0
// Layers with Keras's names, arguments and defaults. Pictures are channels last, (height, width,
// channels).
//
// A layer is a spec struct in one of the headers below, one .cpp under src/nn/layers and one test;
// the list in this header is the only registration.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "surefit/layers/activations.hpp"
#include "surefit/layers/convolution.hpp"
#include "surefit/layers/core.hpp"
#include "surefit/layers/custom.hpp"
#include "surefit/layers/merging.hpp"
#include "surefit/layers/normalization.hpp"
#include "surefit/layers/pooling.hpp"
#include "surefit/layers/preprocessing.hpp"
#include "surefit/layers/regularization.hpp"
#include "surefit/layers/resizing.hpp"
#include "surefit/tensor.hpp"

// Only the headers above use it.
#undef SUREFIT_LAYER_COMMON

namespace surefit {

// Every layer of the library, once.
using BuiltinLayers =
    TypeList<InputLayer, Conv2D, DepthwiseConv2D, SeparableConv2D, Conv2DTranspose, MaxPooling2D,
             AveragePooling2D, GlobalAveragePooling2D, GlobalMaxPooling2D, BatchNormalization,
             LayerNormalization, GroupNormalization, Rescaling, Normalization, Dense, Flatten,
             Reshape, Permute, UpSampling2D, ZeroPadding2D, Cropping2D, Dropout, SpatialDropout2D,
             GaussianNoise, Activation, ReLU, LeakyReLU, PReLU, ELU, Softmax, Add, Multiply,
             Subtract, Average, Maximum, Minimum, Concatenate, RandomFlip, RandomCrop,
             RandomTranslation, RandomRotation>;

class Symbol;

// Any layer. Made from a spec; copies are the same layer (its parameters are shared by every call).
class Layer {
 public:
  template <typename Spec>
  requires requires(const Spec& spec) { make_layer(spec); }
  Layer(
      const Spec& spec)  // NOLINT(google-explicit-constructor): Sequential{Conv2D{...}, Dense{...}}
      : state_(std::make_shared<State>(State{std::string(Spec::kClass), spec.name, spec.trainable,
                                             spec_to_config(spec), make_layer(spec)})) {}

  // Applies the layer: Symbol y = Layer(Conv2D{.filters = 32})(x).
  Symbol operator()(const Symbol& input) const;
  Symbol operator()(std::initializer_list<Symbol> inputs) const;
  Symbol operator()(const std::vector<Symbol>& inputs) const;

  const std::string& class_name() const { return state_->class_name; }
  const std::string& name() const {
    return state_->name;
  }  // may be empty until the layer is part of a model
  bool trainable() const { return state_->trainable; }
  const ConfigMap& config() const { return state_->config; }
  const LayerImpl& impl() const { return *state_->impl; }
  const void* identity() const { return state_.get(); }

 private:
  struct State {
    std::string class_name, name;
    bool trainable;
    ConfigMap config;
    LayerPtr impl;
  };
  std::shared_ptr<const State> state_;
};

// A value in a functional model: which layer made it from what, and its shape without the batch.
class Symbol {
 public:
  struct Node {
    Layer layer;
    std::vector<Symbol> inputs;
    Shape shape;
  };
  explicit Symbol(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  const Node& node() const { return *node_; }
  const Shape& shape() const { return node_->shape; }
  const void* identity() const { return node_.get(); }

 private:
  std::shared_ptr<const Node> node_;
};

// Makes a layer class of your own (layers/custom.hpp) known to model files, once per program and
// before the first file that has it is read. Throws ConfigError when the name is taken.
using LayerFactory = std::function<Layer(const std::string& name, bool trainable,
                                         const ConfigMap& config, const std::string& where)>;
void register_layer_class(const std::string& class_name, LayerFactory make);
template <typename Spec>
void register_layer() {
  register_layer_class(std::string(Spec::kClass),
                       [](const std::string& name, bool trainable, const ConfigMap& config,
                          const std::string& where) {
                         Spec spec = spec_from_config<Spec>(config, where);
                         spec.name = name;
                         spec.trainable = trainable;
                         return Layer(spec);
                       });
}

// The start of a functional model.
Symbol Input(Shape shape, const std::string& name = {});

}  // namespace surefit
