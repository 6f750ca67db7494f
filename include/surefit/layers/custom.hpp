// SPDX-License-Identifier: Apache-2.0
// Layers of your own, as a plain struct in your program. The struct has the fields of every spec
// (kClass, fields(), name, trainable) and says what it does to one sample:
//
//   Shape output_shape(std::span<const Shape> inputs) const;
//   void forward(const LayerSample& sample) const;            // writes sample.output
//   void input_gradient(const LayerSample& sample) const;     // writes sample.input_gradients
//   std::vector<LayerParameter> parameters(std::span<const Shape> inputs) const;   // where it has
//   any void parameter_gradient(const LayerSample& sample) const; // adds to
//   sample.parameter_gradients
//
// Surefit does the rest: batches, threads, planning, recomputing, checkpoints, JSON. The functions
// are called from several threads at once, must give the same for the same arguments, and must
// neither keep the spans nor allocate if steps are to allocate nothing.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "surefit/layers/spec.hpp"
#include "surefit/tensor.hpp"

namespace surefit {

// What a layer of your own sees of one sample. Arrays are row-major, channels last.
struct LayerSample {
  std::span<const std::span<const float>> inputs = {};
  std::span<const std::span<const float>> parameters = {};
  std::span<float> output = {};
  std::span<const float> output_gradient = {};
  // Empty where nobody asks for it: of data, of frozen parameters.
  std::span<const std::span<float>> input_gradients = {};
  std::span<const std::span<float>> parameter_gradients = {};
};

struct LayerParameter {
  std::string name;
  Shape shape;
  Object initializer = {"GlorotUniform"};
  bool trainable = true;
};

class CustomLayer {
 public:
  virtual ~CustomLayer() = default;
  virtual Shape output_shape(std::span<const Shape> inputs) const = 0;
  virtual std::vector<LayerParameter> parameters(std::span<const Shape> inputs) const = 0;
  virtual void forward(const LayerSample& sample) const = 0;
  virtual void input_gradient(const LayerSample& sample) const = 0;
  virtual void parameter_gradient(const LayerSample& sample) const = 0;
};
// `kind` names the layer's work in summaries and profiles; it must live for ever.
LayerPtr make_custom_layer(std::shared_ptr<const CustomLayer> layer, std::string_view kind);

template <typename Spec>
concept CustomLayerSpec = requires(const Spec& spec, std::span<const Shape> shapes,
                                   const LayerSample& sample) {
  spec.output_shape(shapes);
  spec.forward(sample);
  spec.input_gradient(sample);
};

template <CustomLayerSpec Spec>
LayerPtr make_layer(const Spec& spec) {
  class Adapter final : public CustomLayer {
   public:
    explicit Adapter(const Spec& given) : spec_(given) {}
    Shape output_shape(std::span<const Shape> inputs) const override {
      return spec_.output_shape(inputs);
    }
    std::vector<LayerParameter> parameters(std::span<const Shape> inputs) const override {
      if constexpr (requires { spec_.parameters(inputs); }) {
        return spec_.parameters(inputs);
      } else {
        return {};
      }
    }
    void forward(const LayerSample& sample) const override { spec_.forward(sample); }
    void input_gradient(const LayerSample& sample) const override { spec_.input_gradient(sample); }
    void parameter_gradient(const LayerSample& sample) const override {
      if constexpr (requires { spec_.parameter_gradient(sample); })
        spec_.parameter_gradient(sample);
    }

   private:
    Spec spec_;
  };
  return make_custom_layer(std::make_shared<Adapter>(spec), Spec::kClass);
}

}  // namespace surefit
