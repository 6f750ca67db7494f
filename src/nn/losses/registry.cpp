// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "surefit/losses.hpp"

namespace surefit {
namespace {

// Keras's short names.
std::string long_name(const std::string& name) {
  static constexpr std::pair<std::string_view, std::string_view> kShort[] = {
      {"mse", "mean_squared_error"},  {"MSE", "mean_squared_error"},
      {"mae", "mean_absolute_error"}, {"MAE", "mean_absolute_error"},
      {"bce", "binary_crossentropy"}, {"kld", "kl_divergence"}};
  for (const auto& [given, full] : kShort) {
    if (name == given) return std::string(full);
  }
  return name;
}

template <typename... Specs>
Loss make_from(TypeList<Specs...>, const std::string& given, const ConfigMap& config) {
  const std::string name = long_name(given);
  std::optional<Loss> loss;
  const auto attempt = [&]<typename Spec>(TypeList<Spec>) {
    if (name == Spec::kName || name == Spec::kClass)
      loss.emplace(spec_from_config<Spec>(config, "loss"));
  };
  (attempt(TypeList<Specs>{}), ...);
  if (!loss) {
    const std::vector<std::string_view> names = {Specs::kName...};
    throw ConfigError(fmt::format("[loss] unknown loss '{}'; expected one of: {}", given,
                                  fmt::join(names, ", ")));
  }
  return *loss;
}

}  // namespace

Loss::Loss(const std::string& name) : Loss(from_config(name, {})) {}
Loss Loss::from_config(const std::string& name, const ConfigMap& config) {
  return make_from(BuiltinLosses{}, name, config);
}

}  // namespace surefit
