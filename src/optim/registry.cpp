// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "surefit/optimizers.hpp"

#include "base/register.hpp"

namespace surefit {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return result;
}

Register<OptimizerFactory>& own_optimizers() {
  static Register<OptimizerFactory> optimizers("optimizer");
  return optimizers;
}

template <typename... Specs>
bool is_builtin(TypeList<Specs...>, const std::string& name) {
  return ((lower(name) == lower(Specs::kClass)) || ...);
}

template <typename... Specs>
Optimizer make_from(TypeList<Specs...>, const std::string& name, const ConfigMap& config) {
  std::optional<Optimizer> optimizer;
  const auto attempt = [&]<typename Spec>(TypeList<Spec>) {
    if (lower(name) == lower(Spec::kClass))
      optimizer.emplace(spec_from_config<Spec>(config, "optimizer"));
  };
  (attempt(TypeList<Specs>{}), ...);
  if (!optimizer) {
    if (const auto own = own_optimizers().find(lower(name))) return (*own)(config);
    const std::vector<std::string> names = {lower(Specs::kClass)...};
    throw ConfigError(fmt::format("[optimizer] unknown optimizer '{}'; expected one of: {}", name,
                                  fmt::join(names, ", ")));
  }
  return *optimizer;
}

}  // namespace

Optimizer::Optimizer(const std::string& name) : Optimizer(from_config(name, {})) {}
Optimizer Optimizer::from_config(const std::string& name, const ConfigMap& config) {
  return make_from(BuiltinOptimizers{}, name, config);
}

void register_optimizer_class(const std::string& class_name, OptimizerFactory make) {
  own_optimizers().add(lower(class_name), std::move(make),
                       is_builtin(BuiltinOptimizers{}, class_name));
}

}  // namespace surefit
