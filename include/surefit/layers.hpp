// SPDX-License-Identifier: Apache-2.0
// Layers with Keras's names, arguments and defaults. Pictures are channels last, (height, width,
// channels).
//
// A layer is a spec struct here, one .cpp under src/nn/layers and one test; the list at the end of
// this header is the only registration.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "surefit/config.hpp"
#include "surefit/tensor.hpp"

namespace surefit {

class LayerImpl;
using LayerPtr = std::shared_ptr<const LayerImpl>;

// Every spec ends with these: the layer's name (empty: chosen from the class, "conv2d", "conv2d_1",
// ...) and whether its parameters are trained.
#define SUREFIT_LAYER_COMMON \
  std::string name = {};     \
  bool trainable = true

// The entry point of a model: shape without the batch.
struct InputLayer {
  std::vector<std::int64_t> shape = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "InputLayer";
  static constexpr auto fields() { return std::tuple{SpecField{"shape", &InputLayer::shape}}; }
};
LayerPtr make_layer(const InputLayer&);

// 2-D convolution (cross-correlation), y = x * kernel + bias.
struct Conv2D {
  int filters = 0;
  Pair kernel_size = {1, 1};
  Pair strides = {1, 1};
  std::string padding = "valid";  // or "same"
  std::string data_format = "channels_last";
  Pair dilation_rate = {1, 1};
  int groups = 1;
  std::string activation = "linear";
  bool use_bias = true;
  Object kernel_initializer = {"GlorotUniform"};
  Object bias_initializer = {"Zeros"};
  std::optional<Object> kernel_regularizer = {}, bias_regularizer = {}, activity_regularizer = {};
  std::optional<Object> kernel_constraint = {}, bias_constraint = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Conv2D";
  static constexpr auto fields() {
    return std::tuple{SpecField{"filters", &Conv2D::filters},
                      SpecField{"kernel_size", &Conv2D::kernel_size},
                      SpecField{"strides", &Conv2D::strides},
                      SpecField{"padding", &Conv2D::padding},
                      SpecField{"data_format", &Conv2D::data_format},
                      SpecField{"dilation_rate", &Conv2D::dilation_rate},
                      SpecField{"groups", &Conv2D::groups},
                      SpecField{"activation", &Conv2D::activation},
                      SpecField{"use_bias", &Conv2D::use_bias},
                      SpecField{"kernel_initializer", &Conv2D::kernel_initializer},
                      SpecField{"bias_initializer", &Conv2D::bias_initializer},
                      SpecField{"kernel_regularizer", &Conv2D::kernel_regularizer},
                      SpecField{"bias_regularizer", &Conv2D::bias_regularizer},
                      SpecField{"activity_regularizer", &Conv2D::activity_regularizer},
                      SpecField{"kernel_constraint", &Conv2D::kernel_constraint},
                      SpecField{"bias_constraint", &Conv2D::bias_constraint}};
  }
};
LayerPtr make_layer(const Conv2D&);

// Maximum over windows; without strides they equal the window.
struct MaxPooling2D {
  Pair pool_size = {2, 2};
  std::string padding = "valid";
  std::optional<Pair> strides = {};
  std::string data_format = "channels_last";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "MaxPooling2D";
  static constexpr auto fields() {
    return std::tuple{SpecField{"pool_size", &MaxPooling2D::pool_size},
                      SpecField{"padding", &MaxPooling2D::padding},
                      SpecField{"strides", &MaxPooling2D::strides},
                      SpecField{"data_format", &MaxPooling2D::data_format}};
  }
};
LayerPtr make_layer(const MaxPooling2D&);

// Mean over windows; padded positions do not count.
struct AveragePooling2D {
  Pair pool_size = {2, 2};
  std::string padding = "valid";
  std::optional<Pair> strides = {};
  std::string data_format = "channels_last";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "AveragePooling2D";
  static constexpr auto fields() {
    return std::tuple{SpecField{"pool_size", &AveragePooling2D::pool_size},
                      SpecField{"padding", &AveragePooling2D::padding},
                      SpecField{"strides", &AveragePooling2D::strides},
                      SpecField{"data_format", &AveragePooling2D::data_format}};
  }
};
LayerPtr make_layer(const AveragePooling2D&);

// Mean over height and width.
struct GlobalAveragePooling2D {
  std::string data_format = "channels_last";
  bool keepdims = false;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "GlobalAveragePooling2D";
  static constexpr auto fields() {
    return std::tuple{SpecField{"data_format", &GlobalAveragePooling2D::data_format},
                      SpecField{"keepdims", &GlobalAveragePooling2D::keepdims}};
  }
};
LayerPtr make_layer(const GlobalAveragePooling2D&);

// Normalises each channel by its statistics over the whole logical batch, exactly, whatever the
// memory budget: y = gamma (x - mean) / sqrt(variance + epsilon) + beta. (Ioffe and Szegedy 2015)
struct BatchNormalization {
  int axis = -1;
  double momentum = 0.99;
  double epsilon = 1e-3;
  bool center = true;
  bool scale = true;
  Object beta_initializer = {"Zeros"};
  Object gamma_initializer = {"Ones"};
  Object moving_mean_initializer = {"Zeros"};
  Object moving_variance_initializer = {"Ones"};
  std::optional<Object> beta_regularizer = {}, gamma_regularizer = {}, beta_constraint = {},
                        gamma_constraint = {};
  bool synchronized = false;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "BatchNormalization";
  static constexpr auto fields() {
    return std::tuple{
        SpecField{"axis", &BatchNormalization::axis},
        SpecField{"momentum", &BatchNormalization::momentum},
        SpecField{"epsilon", &BatchNormalization::epsilon},
        SpecField{"center", &BatchNormalization::center},
        SpecField{"scale", &BatchNormalization::scale},
        SpecField{"beta_initializer", &BatchNormalization::beta_initializer},
        SpecField{"gamma_initializer", &BatchNormalization::gamma_initializer},
        SpecField{"moving_mean_initializer", &BatchNormalization::moving_mean_initializer},
        SpecField{"moving_variance_initializer", &BatchNormalization::moving_variance_initializer},
        SpecField{"beta_regularizer", &BatchNormalization::beta_regularizer},
        SpecField{"gamma_regularizer", &BatchNormalization::gamma_regularizer},
        SpecField{"beta_constraint", &BatchNormalization::beta_constraint},
        SpecField{"gamma_constraint", &BatchNormalization::gamma_constraint},
        SpecField{"synchronized", &BatchNormalization::synchronized}};
  }
};
LayerPtr make_layer(const BatchNormalization&);

// y = x kernel + bias over the last axis.
struct Dense {
  int units = 0;
  std::string activation = "linear";
  bool use_bias = true;
  Object kernel_initializer = {"GlorotUniform"};
  Object bias_initializer = {"Zeros"};
  std::optional<Object> kernel_regularizer = {}, bias_regularizer = {}, activity_regularizer = {};
  std::optional<Object> kernel_constraint = {}, bias_constraint = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Dense";
  static constexpr auto fields() {
    return std::tuple{SpecField{"units", &Dense::units},
                      SpecField{"activation", &Dense::activation},
                      SpecField{"use_bias", &Dense::use_bias},
                      SpecField{"kernel_initializer", &Dense::kernel_initializer},
                      SpecField{"bias_initializer", &Dense::bias_initializer},
                      SpecField{"kernel_regularizer", &Dense::kernel_regularizer},
                      SpecField{"bias_regularizer", &Dense::bias_regularizer},
                      SpecField{"activity_regularizer", &Dense::activity_regularizer},
                      SpecField{"kernel_constraint", &Dense::kernel_constraint},
                      SpecField{"bias_constraint", &Dense::bias_constraint}};
  }
};
LayerPtr make_layer(const Dense&);

// (h, w, c) -> (h w c,), in Keras's order; moves no memory.
struct Flatten {
  std::string data_format = "channels_last";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Flatten";
  static constexpr auto fields() {
    return std::tuple{SpecField{"data_format", &Flatten::data_format}};
  }
};
LayerPtr make_layer(const Flatten&);

// Zeroes a share `rate` of the elements in training and scales the rest by 1 / (1 - rate). The mask
// is a function of (seed, layer, step, sample): nothing is stored.
struct Dropout {
  double rate = 0.5;
  std::optional<std::int64_t> seed = {};
  std::optional<std::vector<std::int64_t>> noise_shape = {};
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Dropout";
  static constexpr auto fields() {
    return std::tuple{SpecField{"rate", &Dropout::rate}, SpecField{"seed", &Dropout::seed},
                      SpecField{"noise_shape", &Dropout::noise_shape}};
  }
};
LayerPtr make_layer(const Dropout&);

// An activation by name: linear, relu, softmax, ...
struct Activation {
  std::string activation = "linear";
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Activation";
  static constexpr auto fields() {
    return std::tuple{SpecField{"activation", &Activation::activation}};
  }
};
LayerPtr make_layer(const Activation&);

// max(x, 0), optionally capped, leaky below and shifted as in Keras.
struct ReLU {
  std::optional<double> max_value = {};
  double negative_slope = 0;
  double threshold = 0;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "ReLU";
  static constexpr auto fields() {
    return std::tuple{SpecField{"max_value", &ReLU::max_value},
                      SpecField{"negative_slope", &ReLU::negative_slope},
                      SpecField{"threshold", &ReLU::threshold}};
  }
};
LayerPtr make_layer(const ReLU&);

// exp(x) / sum exp(x) over the last axis.
struct Softmax {
  int axis = -1;
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Softmax";
  static constexpr auto fields() { return std::tuple{SpecField{"axis", &Softmax::axis}}; }
};
LayerPtr make_layer(const Softmax&);

// Sum of two or more inputs of one shape.
struct Add {
  SUREFIT_LAYER_COMMON;
  static constexpr std::string_view kClass = "Add";
  static constexpr auto fields() { return std::tuple{}; }
};
LayerPtr make_layer(const Add&);

#undef SUREFIT_LAYER_COMMON

// Every layer of the library, once.
using BuiltinLayers =
    TypeList<InputLayer, Conv2D, MaxPooling2D, AveragePooling2D, GlobalAveragePooling2D,
             BatchNormalization, Dense, Flatten, Dropout, Activation, ReLU, Softmax, Add>;

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

// The start of a functional model.
Symbol Input(Shape shape, const std::string& name = {});

}  // namespace surefit
