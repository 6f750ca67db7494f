// SPDX-License-Identifier: Apache-2.0
// Folds over the one list of layers; that also keeps every layer's object file linked.
#include <fmt/ranges.h>
#include <optional>

#include "base/check.hpp"
#include "nn/layer.hpp"

namespace surefit {
namespace {

template <typename Spec>
bool try_make(const std::string& class_name, const std::string& name, bool trainable,
              const ConfigMap& config, const std::string& where, std::optional<Layer>& out) {
  if (class_name != Spec::kClass) return false;
  Spec spec = spec_from_config<Spec>(config, where);
  spec.name = name;
  spec.trainable = trainable;
  out.emplace(spec);
  return true;
}

template <typename... Specs>
Layer make_from(TypeList<Specs...>, const std::string& class_name, const std::string& name,
                bool trainable, const ConfigMap& config, const std::string& where) {
  std::optional<Layer> layer;
  const bool known = (try_make<Specs>(class_name, name, trainable, config, where, layer) || ...);
  if (!known) {
    throw ConfigError(fmt::format("[{}] unknown layer class '{}'; expected one of: {}", where,
                                  class_name.substr(0, 80), fmt::join(layer_class_names(), ", ")));
  }
  return *layer;
}

template <typename... Specs>
std::vector<std::string_view> names_of(TypeList<Specs...>) {
  return {Specs::kClass...};
}

}  // namespace

Layer make_layer_from_config(const std::string& class_name, const std::string& name, bool trainable,
                             const ConfigMap& config, const std::string& where) {
  return make_from(BuiltinLayers{}, class_name, name, trainable, config, where);
}

std::vector<std::string_view> layer_class_names() {
  return names_of(BuiltinLayers{});
}

}  // namespace surefit
