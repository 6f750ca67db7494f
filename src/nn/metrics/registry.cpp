// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "surefit/metrics.hpp"

namespace surefit {
namespace {

// Keras's short names.
std::string long_name(const std::string& name) {
  static constexpr std::pair<std::string_view, std::string_view> kShort[] = {
      {"acc", "accuracy"},
      {"mse", "mean_squared_error"},
      {"mae", "mean_absolute_error"},
      {"top_k", "top_k_categorical_accuracy"},
      {"sparse_top_k_categorical_accuracy", "top_k_categorical_accuracy"}};
  for (const auto& [given, full] : kShort) {
    if (name == given) return std::string(full);
  }
  return name;
}

template <typename... Specs>
MetricPtr make_from(TypeList<Specs...>, const std::string& given) {
  const std::string name = long_name(given);
  MetricPtr metric;
  const auto attempt = [&]<typename Spec>(TypeList<Spec>) {
    if (name == Spec{}.name || name == Spec::kClass) metric = make_metric(Spec{});
  };
  (attempt(TypeList<Specs>{}), ...);
  if (!metric) {
    const std::vector<std::string> names = {Specs{}.name...};
    throw ConfigError(fmt::format("[metrics] unknown metric '{}'; expected one of: {}", given,
                                  fmt::join(names, ", ")));
  }
  return metric;
}

}  // namespace

Metric::Metric(const std::string& name) : name_(name), impl_(make_from(BuiltinMetrics{}, name)) {}

}  // namespace surefit
