// SPDX-License-Identifier: Apache-2.0
// Optimizers with Keras's names, defaults and arithmetic. They see logical steps only: however a
// batch is cut, one batch is one update.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "surefit/config.hpp"
#include "surefit/optimizers/custom.hpp"
#include "surefit/optimizers/schedules.hpp"

namespace surefit {

// What all of them have:
// - weight_decay: w -= learning_rate weight_decay w before the step;
// - at most one of clipnorm (the norm of each parameter's gradient), global_clipnorm (of all
// together), clipvalue;
// - use_ema: a moving mean of the weights with ema_momentum, which replaces the weights every
//   ema_overwrite_frequency steps, or at the end of fit().
#define SUREFIT_OPTIMIZER_COMMON(...)                           \
  std::optional<double> weight_decay = __VA_ARGS__;             \
  std::optional<double> clipnorm = {};                          \
  std::optional<double> clipvalue = {};                         \
  std::optional<double> global_clipnorm = {};                   \
  bool use_ema = false;                                         \
  double ema_momentum = 0.99;                                   \
  std::optional<std::int64_t> ema_overwrite_frequency = {};     \
  std::optional<double> loss_scale_factor = {};                 \
  std::optional<std::int64_t> gradient_accumulation_steps = {}; \
  std::string name = {}

// w -= lr g, or with momentum: v = momentum v - lr g; w += v (Nesterov: w += momentum v - lr g).
struct SGD {
  LearningRate learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;
  SUREFIT_OPTIMIZER_COMMON({});
  static constexpr std::string_view kClass = "SGD";
  static void fields(auto& field) {
    field("learning_rate", &SGD::learning_rate);
    field("momentum", &SGD::momentum);
    field("nesterov", &SGD::nesterov);
    field("weight_decay", &SGD::weight_decay);
    field("clipnorm", &SGD::clipnorm);
    field("clipvalue", &SGD::clipvalue);
    field("global_clipnorm", &SGD::global_clipnorm);
    field("use_ema", &SGD::use_ema);
    field("ema_momentum", &SGD::ema_momentum);
    field("ema_overwrite_frequency", &SGD::ema_overwrite_frequency);
    field("loss_scale_factor", &SGD::loss_scale_factor);
    field("gradient_accumulation_steps", &SGD::gradient_accumulation_steps);
    field("name", &SGD::name);
  }
};
OptimizerPtr make_optimizer(const SGD&);

// Adaptive moments (Kingma and Ba 2015) with Keras's epsilon outside the root of the uncorrected
// second moment.
struct Adam {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  SUREFIT_OPTIMIZER_COMMON({});
  static constexpr std::string_view kClass = "Adam";
  static void fields(auto& field) {
    field("learning_rate", &Adam::learning_rate);
    field("beta_1", &Adam::beta_1);
    field("beta_2", &Adam::beta_2);
    field("epsilon", &Adam::epsilon);
    field("amsgrad", &Adam::amsgrad);
    field("weight_decay", &Adam::weight_decay);
    field("clipnorm", &Adam::clipnorm);
    field("clipvalue", &Adam::clipvalue);
    field("global_clipnorm", &Adam::global_clipnorm);
    field("use_ema", &Adam::use_ema);
    field("ema_momentum", &Adam::ema_momentum);
    field("ema_overwrite_frequency", &Adam::ema_overwrite_frequency);
    field("loss_scale_factor", &Adam::loss_scale_factor);
    field("gradient_accumulation_steps", &Adam::gradient_accumulation_steps);
    field("name", &Adam::name);
  }
};
OptimizerPtr make_optimizer(const Adam&);

// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
struct AdamW {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  bool amsgrad = false;
  SUREFIT_OPTIMIZER_COMMON(0.004);
  static constexpr std::string_view kClass = "AdamW";
  static void fields(auto& field) {
    field("learning_rate", &AdamW::learning_rate);
    field("beta_1", &AdamW::beta_1);
    field("beta_2", &AdamW::beta_2);
    field("epsilon", &AdamW::epsilon);
    field("amsgrad", &AdamW::amsgrad);
    field("weight_decay", &AdamW::weight_decay);
    field("clipnorm", &AdamW::clipnorm);
    field("clipvalue", &AdamW::clipvalue);
    field("global_clipnorm", &AdamW::global_clipnorm);
    field("use_ema", &AdamW::use_ema);
    field("ema_momentum", &AdamW::ema_momentum);
    field("ema_overwrite_frequency", &AdamW::ema_overwrite_frequency);
    field("loss_scale_factor", &AdamW::loss_scale_factor);
    field("gradient_accumulation_steps", &AdamW::gradient_accumulation_steps);
    field("name", &AdamW::name);
  }
};
OptimizerPtr make_optimizer(const AdamW&);

// Adam with Nesterov momentum (Dozat 2015).
struct Nadam {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.999;
  double epsilon = 1e-7;
  SUREFIT_OPTIMIZER_COMMON({});
  static constexpr std::string_view kClass = "Nadam";
  static void fields(auto& field) {
    field("learning_rate", &Nadam::learning_rate);
    field("beta_1", &Nadam::beta_1);
    field("beta_2", &Nadam::beta_2);
    field("epsilon", &Nadam::epsilon);
    field("weight_decay", &Nadam::weight_decay);
    field("clipnorm", &Nadam::clipnorm);
    field("clipvalue", &Nadam::clipvalue);
    field("global_clipnorm", &Nadam::global_clipnorm);
    field("use_ema", &Nadam::use_ema);
    field("ema_momentum", &Nadam::ema_momentum);
    field("ema_overwrite_frequency", &Nadam::ema_overwrite_frequency);
    field("loss_scale_factor", &Nadam::loss_scale_factor);
    field("gradient_accumulation_steps", &Nadam::gradient_accumulation_steps);
    field("name", &Nadam::name);
  }
};
OptimizerPtr make_optimizer(const Nadam&);

// Gradients divided by the root of a moving mean of their squares (Hinton 2012); centered subtracts
// the mean.
struct RMSprop {
  LearningRate learning_rate = 0.001;
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-7;
  bool centered = false;
  SUREFIT_OPTIMIZER_COMMON({});
  static constexpr std::string_view kClass = "RMSprop";
  static void fields(auto& field) {
    field("learning_rate", &RMSprop::learning_rate);
    field("rho", &RMSprop::rho);
    field("momentum", &RMSprop::momentum);
    field("epsilon", &RMSprop::epsilon);
    field("centered", &RMSprop::centered);
    field("weight_decay", &RMSprop::weight_decay);
    field("clipnorm", &RMSprop::clipnorm);
    field("clipvalue", &RMSprop::clipvalue);
    field("global_clipnorm", &RMSprop::global_clipnorm);
    field("use_ema", &RMSprop::use_ema);
    field("ema_momentum", &RMSprop::ema_momentum);
    field("ema_overwrite_frequency", &RMSprop::ema_overwrite_frequency);
    field("loss_scale_factor", &RMSprop::loss_scale_factor);
    field("gradient_accumulation_steps", &RMSprop::gradient_accumulation_steps);
    field("name", &RMSprop::name);
  }
};
OptimizerPtr make_optimizer(const RMSprop&);

// Gradients divided by the root of the sum of all their squares (Duchi et al. 2011).
struct Adagrad {
  LearningRate learning_rate = 0.001;
  double initial_accumulator_value = 0.1;
  double epsilon = 1e-7;
  SUREFIT_OPTIMIZER_COMMON({});
  static constexpr std::string_view kClass = "Adagrad";
  static void fields(auto& field) {
    field("learning_rate", &Adagrad::learning_rate);
    field("initial_accumulator_value", &Adagrad::initial_accumulator_value);
    field("epsilon", &Adagrad::epsilon);
    field("weight_decay", &Adagrad::weight_decay);
    field("clipnorm", &Adagrad::clipnorm);
    field("clipvalue", &Adagrad::clipvalue);
    field("global_clipnorm", &Adagrad::global_clipnorm);
    field("use_ema", &Adagrad::use_ema);
    field("ema_momentum", &Adagrad::ema_momentum);
    field("ema_overwrite_frequency", &Adagrad::ema_overwrite_frequency);
    field("loss_scale_factor", &Adagrad::loss_scale_factor);
    field("gradient_accumulation_steps", &Adagrad::gradient_accumulation_steps);
    field("name", &Adagrad::name);
  }
};
OptimizerPtr make_optimizer(const Adagrad&);

// Steps from moving means of squared gradients and squared steps (Zeiler 2012).
struct Adadelta {
  LearningRate learning_rate = 0.001;
  double rho = 0.95;
  double epsilon = 1e-7;
  SUREFIT_OPTIMIZER_COMMON({});
  static constexpr std::string_view kClass = "Adadelta";
  static void fields(auto& field) {
    field("learning_rate", &Adadelta::learning_rate);
    field("rho", &Adadelta::rho);
    field("epsilon", &Adadelta::epsilon);
    field("weight_decay", &Adadelta::weight_decay);
    field("clipnorm", &Adadelta::clipnorm);
    field("clipvalue", &Adadelta::clipvalue);
    field("global_clipnorm", &Adadelta::global_clipnorm);
    field("use_ema", &Adadelta::use_ema);
    field("ema_momentum", &Adadelta::ema_momentum);
    field("ema_overwrite_frequency", &Adadelta::ema_overwrite_frequency);
    field("loss_scale_factor", &Adadelta::loss_scale_factor);
    field("gradient_accumulation_steps", &Adadelta::gradient_accumulation_steps);
    field("name", &Adadelta::name);
  }
};
OptimizerPtr make_optimizer(const Adadelta&);

// The sign of a momentum (Chen et al. 2023).
struct Lion {
  LearningRate learning_rate = 0.001;
  double beta_1 = 0.9;
  double beta_2 = 0.99;
  SUREFIT_OPTIMIZER_COMMON({});
  static constexpr std::string_view kClass = "Lion";
  static void fields(auto& field) {
    field("learning_rate", &Lion::learning_rate);
    field("beta_1", &Lion::beta_1);
    field("beta_2", &Lion::beta_2);
    field("weight_decay", &Lion::weight_decay);
    field("clipnorm", &Lion::clipnorm);
    field("clipvalue", &Lion::clipvalue);
    field("global_clipnorm", &Lion::global_clipnorm);
    field("use_ema", &Lion::use_ema);
    field("ema_momentum", &Lion::ema_momentum);
    field("ema_overwrite_frequency", &Lion::ema_overwrite_frequency);
    field("loss_scale_factor", &Lion::loss_scale_factor);
    field("gradient_accumulation_steps", &Lion::gradient_accumulation_steps);
    field("name", &Lion::name);
  }
};
OptimizerPtr make_optimizer(const Lion&);

// The second moment of a matrix from the means of its rows and columns, steps relative to the size
// of the weights (Shazeer and Stern 2018): state of a few thousandths of the weights. As in Keras,
// the last two axes are factored, vectors are not, and the rate is at most 1 / sqrt(step), whatever
// relative_step says.
struct Adafactor {
  LearningRate learning_rate = 0.001;
  double beta_2_decay = -0.8;
  double epsilon_1 = 1e-30;
  double epsilon_2 = 1e-3;
  double clip_threshold = 1;
  bool relative_step = true;
  SUREFIT_OPTIMIZER_COMMON({});
  static constexpr std::string_view kClass = "Adafactor";
  static void fields(auto& field) {
    field("learning_rate", &Adafactor::learning_rate);
    field("beta_2_decay", &Adafactor::beta_2_decay);
    field("epsilon_1", &Adafactor::epsilon_1);
    field("epsilon_2", &Adafactor::epsilon_2);
    field("clip_threshold", &Adafactor::clip_threshold);
    field("relative_step", &Adafactor::relative_step);
    field("weight_decay", &Adafactor::weight_decay);
    field("clipnorm", &Adafactor::clipnorm);
    field("clipvalue", &Adafactor::clipvalue);
    field("global_clipnorm", &Adafactor::global_clipnorm);
    field("use_ema", &Adafactor::use_ema);
    field("ema_momentum", &Adafactor::ema_momentum);
    field("ema_overwrite_frequency", &Adafactor::ema_overwrite_frequency);
    field("loss_scale_factor", &Adafactor::loss_scale_factor);
    field("gradient_accumulation_steps", &Adafactor::gradient_accumulation_steps);
    field("name", &Adafactor::name);
  }
};
OptimizerPtr make_optimizer(const Adafactor&);

#undef SUREFIT_OPTIMIZER_COMMON

using BuiltinOptimizers =
    TypeList<SGD, Adam, AdamW, Nadam, RMSprop, Adagrad, Adadelta, Lion, Adafactor>;

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

// Makes an optimizer of your own (optimizers/custom.hpp) known by its class. Throws ConfigError
// when that is taken.
using OptimizerFactory = std::function<Optimizer(const ConfigMap& config)>;
void register_optimizer_class(const std::string& class_name, OptimizerFactory make);
template <typename Spec>
void register_optimizer() {
  register_optimizer_class(std::string(Spec::kClass), [](const ConfigMap& config) {
    return Optimizer(spec_from_config<Spec>(config, "optimizer"));
  });
}

}  // namespace surefit
