// SPDX-License-Identifier: Apache-2.0
// Learning rates as functions of the step, with Keras's names and formulas. Steps count from 0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "surefit/config.hpp"

namespace surefit {

// initial_learning_rate * decay_rate ^ (step / decay_steps); staircase takes whole quotients.
struct ExponentialDecay {
  double initial_learning_rate = 0;
  double decay_steps = 0;
  double decay_rate = 0;
  bool staircase = false;
  static constexpr std::string_view kClass = "ExponentialDecay";
  static void fields(auto& field) {
    field("initial_learning_rate", &ExponentialDecay::initial_learning_rate);
    field("decay_steps", &ExponentialDecay::decay_steps);
    field("decay_rate", &ExponentialDecay::decay_rate);
    field("staircase", &ExponentialDecay::staircase);
  }
  double at(std::int64_t step) const;
};

// initial_learning_rate / (1 + decay_rate * step / decay_steps).
struct InverseTimeDecay {
  double initial_learning_rate = 0;
  double decay_steps = 0;
  double decay_rate = 0;
  bool staircase = false;
  static constexpr std::string_view kClass = "InverseTimeDecay";
  static void fields(auto& field) {
    field("initial_learning_rate", &InverseTimeDecay::initial_learning_rate);
    field("decay_steps", &InverseTimeDecay::decay_steps);
    field("decay_rate", &InverseTimeDecay::decay_rate);
    field("staircase", &InverseTimeDecay::staircase);
  }
  double at(std::int64_t step) const;
};

// values[i] up to and including boundaries[i], the last value behind all of them.
struct PiecewiseConstantDecay {
  Numbers boundaries = {};
  Numbers values = {};
  static constexpr std::string_view kClass = "PiecewiseConstantDecay";
  static void fields(auto& field) {
    field("boundaries", &PiecewiseConstantDecay::boundaries);
    field("values", &PiecewiseConstantDecay::values);
  }
  double at(std::int64_t step) const;
};

// From initial_learning_rate to end_learning_rate in decay_steps; with `cycle` over ever longer
// stretches.
struct PolynomialDecay {
  double initial_learning_rate = 0;
  double decay_steps = 0;
  double end_learning_rate = 0.0001;
  double power = 1;
  bool cycle = false;
  static constexpr std::string_view kClass = "PolynomialDecay";
  static void fields(auto& field) {
    field("initial_learning_rate", &PolynomialDecay::initial_learning_rate);
    field("decay_steps", &PolynomialDecay::decay_steps);
    field("end_learning_rate", &PolynomialDecay::end_learning_rate);
    field("power", &PolynomialDecay::power);
    field("cycle", &PolynomialDecay::cycle);
  }
  double at(std::int64_t step) const;
};

// Half a cosine from the initial rate (or warmup_target, reached linearly in warmup_steps) down to
// alpha times it.
struct CosineDecay {
  double initial_learning_rate = 0;
  double decay_steps = 0;
  double alpha = 0;
  std::optional<double> warmup_target = {};
  double warmup_steps = 0;
  static constexpr std::string_view kClass = "CosineDecay";
  static void fields(auto& field) {
    field("initial_learning_rate", &CosineDecay::initial_learning_rate);
    field("decay_steps", &CosineDecay::decay_steps);
    field("alpha", &CosineDecay::alpha);
    field("warmup_target", &CosineDecay::warmup_target);
    field("warmup_steps", &CosineDecay::warmup_steps);
  }
  double at(std::int64_t step) const;
};

// Cosines one after the other: each t_mul times as long and m_mul times as high as the one before.
// (Loshchilov and Hutter 2017)
struct CosineDecayRestarts {
  double initial_learning_rate = 0;
  double first_decay_steps = 0;
  double t_mul = 2;
  double m_mul = 1;
  double alpha = 0;
  static constexpr std::string_view kClass = "CosineDecayRestarts";
  static void fields(auto& field) {
    field("initial_learning_rate", &CosineDecayRestarts::initial_learning_rate);
    field("first_decay_steps", &CosineDecayRestarts::first_decay_steps);
    field("t_mul", &CosineDecayRestarts::t_mul);
    field("m_mul", &CosineDecayRestarts::m_mul);
    field("alpha", &CosineDecayRestarts::alpha);
  }
  double at(std::int64_t step) const;
};

using BuiltinSchedules = TypeList<ExponentialDecay, InverseTimeDecay, PiecewiseConstantDecay,
                                  PolynomialDecay, CosineDecay, CosineDecayRestarts>;

// A fixed rate, or a schedule.
class LearningRate {
 public:
  LearningRate(double rate = 0)
      : rate_(rate) {}  // NOLINT(google-explicit-constructor): learning_rate = 0.1
  template <typename Spec>
  requires requires(const Spec& spec) { spec.at(0); }
  LearningRate(const Spec& spec)  // NOLINT(google-explicit-constructor)
      : object_{std::string(Spec::kClass), spec_to_config(spec)},
        schedule_(std::make_shared<Function>([spec](std::int64_t step) { return spec.at(step); })) {
  }
  static LearningRate from_config(const ConfigValue& value, const std::string& where);

  double at(std::int64_t step) const { return schedule_ ? (*schedule_)(step) : rate_; }
  bool scheduled() const { return schedule_ != nullptr; }
  const Object& object() const { return object_; }  // of a schedule

 private:
  using Function = std::function<double(std::int64_t)>;
  double rate_ = 0;
  Object object_ = {};
  std::shared_ptr<const Function> schedule_;
};

// A schedule of your own is a struct with kClass, fields() and double at(std::int64_t step) const.
// This makes its class known to files and command lines. Throws ConfigError when that is taken.
using ScheduleFactory =
    std::function<LearningRate(const ConfigMap& config, const std::string& where)>;
void register_schedule_class(const std::string& class_name, ScheduleFactory make);
template <typename Spec>
void register_schedule() {
  register_schedule_class(std::string(Spec::kClass),
                          [](const ConfigMap& config, const std::string& where) {
                            return LearningRate(spec_from_config<Spec>(config, where));
                          });
}

ConfigValue to_config(const LearningRate& value);
void from_config(const ConfigValue& value, const std::string& where, LearningRate& out);

}  // namespace surefit
