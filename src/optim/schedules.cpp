// SPDX-License-Identifier: Apache-2.0
#include "surefit/optimizers/schedules.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numbers>

#include "base/register.hpp"

namespace surefit {
namespace {

void require(bool fits, std::string_view what) {
  if (!fits) throw ConfigError(fmt::format("[learning_rate] {}", what));
}

double part(std::int64_t step, double steps, bool staircase) {
  const double quotient = static_cast<double>(step) / steps;
  return staircase ? std::floor(quotient) : quotient;
}

double half_cosine(double share, double alpha) {
  return (1 - alpha) * 0.5 * (1 + std::cos(std::numbers::pi * share)) + alpha;
}

Register<ScheduleFactory>& own_schedules() {
  static Register<ScheduleFactory> schedules("schedule");
  return schedules;
}

template <typename... Specs>
bool is_builtin(TypeList<Specs...>, const std::string& name) {
  return ((name == Specs::kClass) || ...);
}

template <typename... Specs>
LearningRate make_from(TypeList<Specs...>, const Object& object, const std::string& where) {
  std::optional<LearningRate> rate;
  const auto attempt = [&]<typename Spec>(TypeList<Spec>) {
    if (object.class_name != Spec::kClass) return;
    ConfigMap config = object.config;
    std::erase_if(config, [](const auto& entry) { return entry.first == "name"; });
    const Spec spec = spec_from_config<Spec>(config, where);
    spec.at(0);  // finds bad numbers now
    rate.emplace(spec);
  };
  (attempt(TypeList<Specs>{}), ...);
  if (!rate) {
    if (const auto own = own_schedules().find(object.class_name))
      return (*own)(object.config, where);
    const std::vector<std::string_view> names = {Specs::kClass...};
    throw ConfigError(fmt::format("[{}] unknown schedule '{}'; expected a number or one of: {}",
                                  where, object.class_name, fmt::join(names, ", ")));
  }
  return *rate;
}

}  // namespace

double ExponentialDecay::at(std::int64_t step) const {
  require(decay_steps > 0, "decay_steps; expected above 0");
  return initial_learning_rate * std::pow(decay_rate, part(step, decay_steps, staircase));
}

double InverseTimeDecay::at(std::int64_t step) const {
  require(decay_steps > 0, "decay_steps; expected above 0");
  return initial_learning_rate / (1 + decay_rate * part(step, decay_steps, staircase));
}

double PiecewiseConstantDecay::at(std::int64_t step) const {
  require(values.values.size() == boundaries.values.size() + 1,
          "values; expected one more than boundaries");
  require(std::is_sorted(boundaries.values.begin(), boundaries.values.end()),
          "boundaries; expected rising steps");
  std::size_t i = 0;
  while (i < boundaries.values.size() && static_cast<double>(step) > boundaries.values[i]) ++i;
  return values.values[i];
}

double PolynomialDecay::at(std::int64_t step) const {
  require(decay_steps > 0, "decay_steps; expected above 0");
  double steps = decay_steps, at = static_cast<double>(step);
  if (cycle) {
    steps *= step == 0 ? 1 : std::ceil(at / decay_steps);
  } else {
    at = std::min(at, decay_steps);
  }
  return (initial_learning_rate - end_learning_rate) * std::pow(1 - at / steps, power) +
         end_learning_rate;
}

double CosineDecay::at(std::int64_t step) const {
  require(decay_steps > 0, "decay_steps; expected above 0");
  require(warmup_steps >= 0, "warmup_steps; expected 0 or more");
  const auto now = static_cast<double>(step);
  if (!warmup_target)
    return initial_learning_rate * half_cosine(std::min(now, decay_steps) / decay_steps, alpha);
  if (now < warmup_steps)
    return initial_learning_rate + (*warmup_target - initial_learning_rate) * now / warmup_steps;
  return *warmup_target *
         half_cosine(std::min(now - warmup_steps, decay_steps) / decay_steps, alpha);
}

double CosineDecayRestarts::at(std::int64_t step) const {
  require(first_decay_steps > 0, "first_decay_steps; expected above 0");
  require(t_mul >= 1, "t_mul; expected 1 or more");
  double share = static_cast<double>(step) / first_decay_steps, restart = std::floor(share);
  if (t_mul == 1) {
    share -= restart;
  } else {
    // The restart behind which the step lies: lengths are a geometric series.
    restart = std::floor(std::log(1 - share * (1 - t_mul)) / std::log(t_mul));
    const double begin = (1 - std::pow(t_mul, restart)) / (1 - t_mul);
    share = (share - begin) / std::pow(t_mul, restart);
  }
  return initial_learning_rate *
         ((1 - alpha) * 0.5 * std::pow(m_mul, restart) * (1 + std::cos(std::numbers::pi * share)) +
          alpha);
}

LearningRate LearningRate::from_config(const ConfigValue& value, const std::string& where) {
  if (!std::holds_alternative<ConfigMap>(value.data)) {
    double rate = 0;
    surefit::from_config(value, where, rate);
    return LearningRate(rate);
  }
  Object object;
  surefit::from_config(value, where, object);
  std::erase_if(object.config, [](const auto& field) { return field.first == "name"; });
  return make_from(BuiltinSchedules{}, object, where);
}

ConfigValue to_config(const LearningRate& value) {
  return value.scheduled() ? to_config(value.object()) : to_config(value.at(0));
}
void from_config(const ConfigValue& value, const std::string& where, LearningRate& out) {
  out = LearningRate::from_config(value, where);
}

void register_schedule_class(const std::string& class_name, ScheduleFactory make) {
  own_schedules().add(class_name, std::move(make), is_builtin(BuiltinSchedules{}, class_name));
}

}  // namespace surefit
