// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizer.hpp"

namespace surefit {

std::optional<Optimizer> factored_optimizer(const Optimizer& optimizer) {
  if (optimizer.class_name() != Adam::kClass && optimizer.class_name() != AdamW::kClass)
    return std::nullopt;
  ConfigMap config;
  for (const auto& [key, value] : spec_to_config(Adafactor{})) {
    const ConfigValue* own = find(optimizer.config(), key);
    if (own != nullptr && key != "name") config.emplace_back(key, *own);
  }
  return Optimizer::from_config(std::string(Adafactor::kClass), config);
}

}  // namespace surefit
