// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "surefit/metrics.hpp"

#include "base/register.hpp"

namespace surefit {
namespace {

// Keras's short names.
std::string long_name(const std::string& name) {
  static constexpr std::pair<std::string_view, std::string_view> kShort[] = {
      {"acc", "accuracy"},
      {"mse", "mean_squared_error"},
      {"mae", "mean_absolute_error"},
      {"top_k", "top_k_categorical_accuracy"},
      {"sparse_top_k_categorical_accuracy", "top_k_categorical_accuracy"},
      {"SparseTopKCategoricalAccuracy", "TopKCategoricalAccuracy"},
      {"SparseCategoricalAccuracy", "Accuracy"},
      {"CategoricalAccuracy", "Accuracy"},
      {"BinaryAccuracy", "Accuracy"},
      {"sparse_categorical_accuracy", "accuracy"},
      {"categorical_accuracy", "accuracy"},
      {"binary_accuracy", "accuracy"},
      {"MeanSquaredError", "mean_squared_error"},
      {"MeanAbsoluteError", "mean_absolute_error"}};
  for (const auto& [given, full] : kShort) {
    if (name == given) return std::string(full);
  }
  return name;
}

Register<MetricFactory>& own_metrics() {
  static Register<MetricFactory> metrics("metric");
  return metrics;
}

template <typename... Specs>
bool is_builtin(TypeList<Specs...>, const std::string& name) {
  return ((name == Specs{}.name || name == Specs::kClass) || ...);
}

template <typename... Specs>
std::pair<std::string, MetricPtr> make_from(TypeList<Specs...>, const std::string& given,
                                            const ConfigMap& config) {
  const std::string name = long_name(given);
  std::pair<std::string, MetricPtr> metric;
  const auto attempt = [&]<typename Spec>(TypeList<Spec>) {
    if (name == Spec{}.name || name == Spec::kClass) {
      const Spec spec = spec_from_config<Spec>(config, "metrics");
      metric = {spec.name, make_metric(spec)};
    }
  };
  (attempt(TypeList<Specs>{}), ...);
  if (!metric.second) {
    if (const auto own = own_metrics().find(given)) return {given, (*own)()};
    const std::vector<std::string> names = {Specs{}.name...};
    throw ConfigError(fmt::format("[metrics] unknown metric '{}'; expected one of: {}", given,
                                  fmt::join(names, ", ")));
  }
  return metric;
}

}  // namespace

Metric::Metric(const std::string& name) : Metric(from_config(name, {})) {
  name_ = name;  // the history calls it what the user does
}
Metric Metric::from_config(const std::string& name, const ConfigMap& config) {
  auto [chosen, impl] = make_from(BuiltinMetrics{}, name, config);
  return Metric(std::move(chosen), std::move(impl));
}

void register_metric_class(const std::string& name, MetricFactory make) {
  own_metrics().add(name, std::move(make), is_builtin(BuiltinMetrics{}, name));
}

}  // namespace surefit
