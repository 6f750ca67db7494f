// SPDX-License-Identifier: Apache-2.0
// Losses of your own, as a plain struct with kClass, kName, fields() and
//
//   double evaluate(std::span<const float> prediction, std::span<const float> target,
//                   std::span<float> gradient) const;
//   Shape target_shape(const Shape& prediction) const;   // where it is not the prediction's
//
// evaluate() returns the loss of one sample and writes its derivative by each prediction, unless
// `gradient` is empty. Whole-number labels come as floats.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "surefit/config.hpp"
#include "surefit/tensor.hpp"

namespace surefit {

class LossImpl;
using LossPtr = std::shared_ptr<const LossImpl>;

class CustomLoss {
 public:
  virtual ~CustomLoss() = default;
  virtual Shape target_shape(const Shape& prediction) const = 0;
  virtual double evaluate(std::span<const float> prediction, std::span<const float> target,
                          std::span<float> gradient) const = 0;
};
LossPtr make_custom_loss(std::shared_ptr<const CustomLoss> loss, std::string_view kind);

template <typename Spec>
concept CustomLossSpec = requires(const Spec& spec, std::span<const float> in,
                                  std::span<float> out) {
  { spec.evaluate(in, in, out) } -> std::convertible_to<double>;
};

template <CustomLossSpec Spec>
LossPtr make_loss(const Spec& spec) {
  class Adapter final : public CustomLoss {
   public:
    explicit Adapter(const Spec& given) : spec_(given) {}
    Shape target_shape(const Shape& prediction) const override {
      if constexpr (requires { spec_.target_shape(prediction); }) {
        return spec_.target_shape(prediction);
      } else {
        return prediction;
      }
    }
    double evaluate(std::span<const float> prediction, std::span<const float> target,
                    std::span<float> gradient) const override {
      return spec_.evaluate(prediction, target, gradient);
    }

   private:
    Spec spec_;
  };
  return make_custom_loss(std::make_shared<Adapter>(spec), Spec::kClass);
}

}  // namespace surefit
