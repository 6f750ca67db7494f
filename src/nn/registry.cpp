// SPDX-License-Identifier: Apache-2.0
// Folds over the one list of layers; that also keeps every layer's object file linked. Classes of
// users come from a register beside it.
#include <algorithm>
#include <fmt/ranges.h>
#include <optional>

#include "base/check.hpp"
#include "base/register.hpp"
#include "nn/layer.hpp"

namespace surefit {
namespace {

Register<LayerFactory>& own_layers() {
  static Register<LayerFactory> layers("layer class");
  return layers;
}

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
  if (known) return *layer;
  if (const auto own = own_layers().find(class_name)) return (*own)(name, trainable, config, where);
  throw ConfigError(fmt::format(
      "[{}] unknown layer class '{}'; expected one of: {}; a class of your own is made known by "
      "register_layer<T>()",
      where, class_name.substr(0, 80), fmt::join(layer_class_names(), ", ")));
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

bool is_builtin_layer(std::string_view class_name) {
  const auto names = layer_class_names();
  return std::find(names.begin(), names.end(), class_name) != names.end();
}

std::optional<bool> default_training(std::string_view class_name) {
  if (class_name.starts_with("Random")) return true;
  if (class_name.ends_with("Noise") || class_name.find("Dropout") != std::string_view::npos)
    return false;
  return std::nullopt;
}

void register_layer_class(const std::string& class_name, LayerFactory make) {
  own_layers().add(class_name, std::move(make), is_builtin_layer(class_name));
}

}  // namespace surefit
