// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "surefit/losses.hpp"

#include "base/register.hpp"

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

Register<LossFactory>& own_losses() {
  static Register<LossFactory> losses("loss");
  return losses;
}

template <typename... Specs>
bool is_builtin(TypeList<Specs...>, const std::string& name) {
  return ((name == Specs::kName || name == Specs::kClass) || ...);
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
    if (const auto own = own_losses().find(given)) return (*own)(config);
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

void register_loss_class(const std::string& class_name, const std::string& name, LossFactory make) {
  own_losses().add(name, make, is_builtin(BuiltinLosses{}, name));
  if (class_name != name)
    own_losses().add(class_name, std::move(make), is_builtin(BuiltinLosses{}, class_name));
}

}  // namespace surefit
