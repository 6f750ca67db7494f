// SPDX-License-Identifier: Apache-2.0
// Optimizers of your own, as a plain struct with kClass, fields(), learning_rate and
//
//   std::vector<std::string> slots() const;   // names of its state per weight, at most three
//   void update(const OptimizerStep& step, std::span<float> weights, std::span<const float>
//   gradient,
//               std::span<const std::span<float>> slots) const;
//
// update() sees some elements of a parameter at a time, in no order, and treats each by itself;
// slots start at 0. Members clipnorm, global_clipnorm and clipvalue (std::optional<double>) work as
// in every optimizer.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "surefit/optimizers/schedules.hpp"

namespace surefit {

class OptimizerImpl;
using OptimizerPtr = std::shared_ptr<const OptimizerImpl>;

struct OptimizerStep {
  std::int64_t number = 1;  // from 1
  double learning_rate = 0;
};

class CustomOptimizer {
 public:
  virtual ~CustomOptimizer() = default;
  virtual LearningRate learning_rate() const = 0;
  virtual std::optional<double> clipnorm() const = 0;
  virtual std::optional<double> global_clipnorm() const = 0;
  virtual std::optional<double> clipvalue() const = 0;
  virtual std::vector<std::string> slots() const = 0;
  virtual void update(const OptimizerStep& step, std::span<float> weights,
                      std::span<const float> gradient,
                      std::span<const std::span<float>> slots) const = 0;
};
// Throws ConfigError for an update that changes a weight of 0 whose gradient has always been 0:
// kernels rely on the zeros that fill up their vectors.
OptimizerPtr make_custom_optimizer(std::shared_ptr<const CustomOptimizer> optimizer,
                                   std::string_view kind);

template <typename Spec>
concept CustomOptimizerSpec = requires(const Spec& spec, const OptimizerStep& step,
                                       std::span<float> weights, std::span<const float> gradient,
                                       std::span<const std::span<float>> slots) {
  spec.learning_rate;
  spec.slots();
  spec.update(step, weights, gradient, slots);
};

template <CustomOptimizerSpec Spec>
OptimizerPtr make_optimizer(const Spec& spec) {
  class Adapter final : public CustomOptimizer {
   public:
    explicit Adapter(const Spec& given) : spec_(given) {}
    LearningRate learning_rate() const override { return spec_.learning_rate; }
    std::optional<double> clipnorm() const override {
      if constexpr (requires { spec_.clipnorm; }) return spec_.clipnorm;
      return {};
    }
    std::optional<double> global_clipnorm() const override {
      if constexpr (requires { spec_.global_clipnorm; }) return spec_.global_clipnorm;
      return {};
    }
    std::optional<double> clipvalue() const override {
      if constexpr (requires { spec_.clipvalue; }) return spec_.clipvalue;
      return {};
    }
    std::vector<std::string> slots() const override { return spec_.slots(); }
    void update(const OptimizerStep& step, std::span<float> weights,
                std::span<const float> gradient,
                std::span<const std::span<float>> slots) const override {
      spec_.update(step, weights, gradient, slots);
    }

   private:
    Spec spec_;
  };
  return make_custom_optimizer(std::make_shared<Adapter>(spec), Spec::kClass);
}

}  // namespace surefit
