// SPDX-License-Identifier: Apache-2.0
// What all optimizers share: an update of ranges of elements, and the options every one of them
// has.
#pragma once

#include <array>
#include <fmt/format.h>

#include "engine/kernels/table.hpp"
#include "optim/optimizer.hpp"

namespace surefit {

// One range of a parameter in one step.
struct UpdateRange {
  float* weights = nullptr;
  const float* gradient = nullptr;
  std::array<float*, 3> slots = {};
  std::int64_t count = 0;
  std::int64_t step = 1;  // from 1
  double learning_rate = 0;
  float grad_scale = 1;
  float weight_decay = 0;
};

struct UpdateRule {
  std::string_view kind;  // a literal
  std::vector<std::string> slots = {};
  std::function<void(const UpdateRange&)> run = {};
  // Of ElementUpdate, where this is the rule.
  std::function<kernels::AdamArgs(const UpdateRange&)> as_adam = {};
  std::function<kernels::SgdArgs(const UpdateRange&)> as_sgd = {};
};

// The options of SUREFIT_OPTIMIZER_COMMON.
struct OptimizerOptions {
  LearningRate learning_rate;
  Clipping clipping;
  double weight_decay = 0;
  bool average = false;
  double average_momentum = 0.99;
  std::int64_t overwrite_every = 0;  // steps; 0: at the end of fit()
  bool averages_at_end() const { return average && overwrite_every == 0; }
};

// Moves the mean of the weights, and puts it in their place where the step asks for it.
void average(const OptimizerOptions& options, std::int64_t step, float* weights, float* mean,
             std::int64_t count);

OptimizerPtr make_optimizer(const UpdateRule& rule, const OptimizerOptions& options);

// Reads and checks them.
template <typename Spec>
OptimizerOptions options_of(const Spec& spec) {
  const auto refuse = [](std::string_view what) {
    throw ConfigError(fmt::format("[{}] {}", Spec::kClass, what));
  };
  const auto limit = [&](const std::optional<double>& value, std::string_view name) {
    if (value && !(*value > 0)) refuse(fmt::format("{}; expected above 0; got {}", name, *value));
    return value.value_or(0);
  };
  OptimizerOptions options;
  options.learning_rate = spec.learning_rate;
  if (const double first = spec.learning_rate.at(0); !(first >= 0))
    refuse(fmt::format("learning_rate; expected at least 0; got {}", first));
  options.clipping = {limit(spec.clipnorm, "clipnorm"),
                      limit(spec.global_clipnorm, "global_clipnorm"),
                      limit(spec.clipvalue, "clipvalue")};
  if (spec.clipnorm.has_value() + spec.global_clipnorm.has_value() + spec.clipvalue.has_value() > 1)
    refuse("expected at most one of clipnorm, global_clipnorm and clipvalue");
  options.weight_decay = spec.weight_decay.value_or(0);
  if (!(options.weight_decay >= 0)) refuse("weight_decay; expected at least 0");
  options.average = spec.use_ema;
  options.average_momentum = spec.ema_momentum;
  if (!(spec.ema_momentum >= 0 && spec.ema_momentum <= 1)) refuse("ema_momentum; expected 0 to 1");
  options.overwrite_every = spec.ema_overwrite_frequency.value_or(0);
  if (spec.ema_overwrite_frequency && options.overwrite_every < 1)
    refuse("ema_overwrite_frequency; expected at least 1");
  if (spec.loss_scale_factor) refuse("loss_scale_factor is not supported; remove it");
  if (spec.gradient_accumulation_steps) {
    refuse(
        "gradient_accumulation_steps is not needed: a batch of any size is cut to fit the memory; "
        "remove it");
  }
  return options;
}

inline void check_share(std::string_view where, double value) {
  if (!(value >= 0 && value < 1))
    throw ConfigError(fmt::format("{}; expected at least 0 and below 1; got {}", where, value));
}

// What the kernels' arguments have in common.
template <typename Args>
Args update_args(const UpdateRange& range) {
  Args args;
  args.weights = range.weights;
  args.gradient = range.gradient;
  args.count = range.count;
  args.lr = static_cast<float>(range.learning_rate);
  args.weight_decay = range.weight_decay;
  args.grad_scale = range.grad_scale;
  return args;
}

}  // namespace surefit
