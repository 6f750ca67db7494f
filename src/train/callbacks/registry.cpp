// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

#include "surefit/callbacks.hpp"

namespace surefit {
namespace {

// "EarlyStopping", "early_stopping" and "earlystopping" are one name.
std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c != '_' && c != '-')
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return result;
}

// "ReduceLROnPlateau" -> "reduce_lr_on_plateau"
std::string snake(std::string_view name) {
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto upper = [&](std::size_t at) {
      return at < name.size() && std::isupper(static_cast<unsigned char>(name[at])) != 0;
    };
    const bool begins =
        upper(i) && i > 0 && (!upper(i - 1) || (i + 1 < name.size() && !upper(i + 1)));
    if (begins) result += '_';
    result += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
  }
  return result;
}

template <typename... Specs>
CallbackHandle make_from(TypeList<Specs...>, const std::string& name, const ConfigMap& config) {
  std::optional<CallbackHandle> callback;
  const auto attempt = [&]<typename Spec>(TypeList<Spec>) {
    if (plain(name) == plain(Spec::kClass))
      callback.emplace(spec_from_config<Spec>(config, std::string(Spec::kClass)));
  };
  (attempt(TypeList<Specs>{}), ...);
  if (!callback) {
    const std::vector<std::string> names = {snake(Specs::kClass)...};
    throw ConfigError(fmt::format("[callback] unknown callback '{}'; expected one of: {}", name,
                                  fmt::join(names, ", ")));
  }
  return *callback;
}

}  // namespace

CallbackHandle CallbackHandle::from_config(const std::string& name, const ConfigMap& config) {
  return make_from(BuiltinCallbacks{}, name, config);
}

}  // namespace surefit
