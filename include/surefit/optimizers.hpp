// SPDX-License-Identifier: Apache-2.0
// Optimizers with Keras's names, defaults and arithmetic. They see logical steps only: however a
// batch is cut, one batch is one update.
#pragma once

#include <memory>
#include <string>

#include "surefit/config.hpp"

namespace surefit {

class OptimizerImpl;
using OptimizerPtr = std::shared_ptr<const OptimizerImpl>;

// w -= lr g, or with momentum: v = momentum v - lr g; w += v (Nesterov: w += momentum v - lr g).
struct SGD {
  double learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  static constexpr std::string_view kClass = "SGD";
  static constexpr auto fields() {
    return std::tuple{SpecField{"learning_rate", &SGD::learning_rate},
                      SpecField{"momentum", &SGD::momentum}, SpecField{"nesterov", &SGD::nesterov}};
  }
};
OptimizerPtr make_optimizer(const SGD&);

// Adaptive moments (Kingma and Ba 2015) with Keras's epsilon outside the root of the uncorrected
// second moment.
struct Adam {
  double learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  std::optional<double> weight_decay = {};  // decoupled: w -= lr weight_decay w before the step
  static constexpr std::string_view kClass = "Adam";
  static constexpr auto fields() {
    return std::tuple{SpecField{"learning_rate", &Adam::learning_rate},
                      SpecField{"beta_1", &Adam::beta_1},
                      SpecField{"beta_2", &Adam::beta_2},
                      SpecField{"epsilon", &Adam::epsilon},
                      SpecField{"amsgrad", &Adam::amsgrad},
                      SpecField{"weight_decay", &Adam::weight_decay}};
  }
};
OptimizerPtr make_optimizer(const Adam&);

// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
struct AdamW {
  double learning_rate = 0.001;
  std::optional<double> weight_decay = 0.004;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  static constexpr std::string_view kClass = "AdamW";
  static constexpr auto fields() {
    return std::tuple{SpecField{"learning_rate", &AdamW::learning_rate},
                      SpecField{"weight_decay", &AdamW::weight_decay},
                      SpecField{"beta_1", &AdamW::beta_1},
                      SpecField{"beta_2", &AdamW::beta_2},
                      SpecField{"epsilon", &AdamW::epsilon},
                      SpecField{"amsgrad", &AdamW::amsgrad}};
  }
};
OptimizerPtr make_optimizer(const AdamW&);

using BuiltinOptimizers = TypeList<SGD, Adam, AdamW>;

// Any optimizer: a spec, or Keras's name for it ("adam").
class Optimizer {
 public:
  template <typename Spec>
  requires requires(const Spec& spec) { make_optimizer(spec); }
  Optimizer(const Spec& spec)  // NOLINT(google-explicit-constructor)
      : class_name_(Spec::kClass), config_(spec_to_config(spec)), impl_(make_optimizer(spec)) {}
  Optimizer(const std::string& name);  // NOLINT(google-explicit-constructor)
  Optimizer(const char* name)
      : Optimizer(std::string(name)) {}  // NOLINT(google-explicit-constructor)
  static Optimizer from_config(const std::string& name, const ConfigMap& config);

  const std::string& class_name() const { return class_name_; }
  const ConfigMap& config() const { return config_; }
  const OptimizerImpl& impl() const { return *impl_; }

 private:
  std::string class_name_;
  ConfigMap config_;
  OptimizerPtr impl_;
};

}  // namespace surefit
