// SPDX-License-Identifier: Apache-2.0
#include "surefit/config.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace surefit {
namespace {

[[noreturn]] void misfit(const std::string& where, std::string_view expected,
                         const ConfigValue& got) {
  throw ConfigError(fmt::format("[{}] expected {}; got {}", where, expected, got.to_string()));
}

}  // namespace

std::string ConfigValue::to_string() const {
  struct Printer {
    std::string operator()(std::monostate) const { return "null"; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
    std::string operator()(double value) const { return fmt::format("{}", value); }
    std::string operator()(const std::string& value) const {
      return fmt::format("\"{}\"", value.substr(0, 80));
    }
    std::string operator()(const ConfigList& list) const {
      std::string text;
      for (const ConfigValue& value : list) {
        if (text.size() > 120) return fmt::format("[{}, ...]", text);
        text += (text.empty() ? "" : ", ") + value.to_string();
      }
      return fmt::format("[{}]", text);
    }
    std::string operator()(const ConfigMap& map) const {
      std::string text;
      for (const auto& [key, value] : map) {
        if (text.size() > 120) return fmt::format("{{{}, ...}}", text);
        text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", key, value.to_string());
      }
      return fmt::format("{{{}}}", text);
    }
  };
  return std::visit(Printer{}, data);
}

const ConfigValue* find(const ConfigMap& map, std::string_view key) {
  for (const auto& [name, value] : map) {
    if (name == key) return &value;
  }
  return nullptr;
}

double Object::number(std::string_view key, double fallback) const {
  const ConfigValue* value = find(config, key);
  if (value == nullptr || value->is_null()) return fallback;
  double result = fallback;
  from_config(*value, class_name + "." + std::string(key), result);
  return result;
}

ConfigValue to_config(bool value) {
  return ConfigValue(value);
}
ConfigValue to_config(int value) {
  return ConfigValue(std::int64_t{value});
}
ConfigValue to_config(std::int64_t value) {
  return ConfigValue(value);
}
ConfigValue to_config(double value) {
  return ConfigValue(value);
}
ConfigValue to_config(const std::string& value) {
  return ConfigValue(value);
}
ConfigValue to_config(const Pair& value) {
  return ConfigValue(ConfigList{to_config(value.h), to_config(value.w)});
}
ConfigValue to_config(const Sides& value) {
  return ConfigValue(ConfigList{to_config(Pair(value.top, value.bottom)),
                                to_config(Pair(value.left, value.right))});
}
ConfigValue to_config(const Axes& value) {
  if (value.values.empty()) return {};
  return value.values.size() == 1 ? to_config(value.values[0]) : to_config(value.values);
}
ConfigValue to_config(const Numbers& value) {
  if (value.values.empty()) return {};
  if (value.values.size() == 1) return to_config(value.values[0]);
  ConfigList list;
  for (const double item : value.values) list.push_back(to_config(item));
  return ConfigValue(std::move(list));
}
ConfigValue to_config(const Interval& value) {
  return ConfigValue(ConfigList{to_config(value.low), to_config(value.high)});
}
ConfigValue to_config(const Object& value) {
  return ConfigValue(ConfigMap{{"class_name", to_config(value.class_name)},
                               {"config", ConfigValue(value.config)}});
}
ConfigValue to_config(const std::vector<std::int64_t>& value) {
  ConfigList list;
  for (const std::int64_t item : value) list.push_back(to_config(item));
  return ConfigValue(std::move(list));
}

void from_config(const ConfigValue& value, const std::string& where, bool& out) {
  if (const bool* known = std::get_if<bool>(&value.data)) {
    out = *known;
  } else {
    misfit(where, "true or false", value);
  }
}

void from_config(const ConfigValue& value, const std::string& where, std::int64_t& out) {
  if (const auto* whole = std::get_if<std::int64_t>(&value.data)) {
    out = *whole;
    return;
  }
  const auto* real = std::get_if<double>(&value.data);
  if (real == nullptr || std::floor(*real) != *real || std::abs(*real) > 1e15)
    misfit(where, "a whole number", value);
  out = static_cast<std::int64_t>(*real);
}

void from_config(const ConfigValue& value, const std::string& where, int& out) {
  std::int64_t wide = 0;
  from_config(value, where, wide);
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) {
    misfit(where, "a number that fits 32 bits", value);
  }
  out = static_cast<int>(wide);
}

void from_config(const ConfigValue& value, const std::string& where, double& out) {
  if (const auto* real = std::get_if<double>(&value.data)) {
    out = *real;
  } else if (const auto* whole = std::get_if<std::int64_t>(&value.data)) {
    out = static_cast<double>(*whole);
  } else {
    misfit(where, "a number", value);
  }
}

void from_config(const ConfigValue& value, const std::string& where, std::string& out) {
  if (const auto* text = std::get_if<std::string>(&value.data)) {
    out = *text;
  } else {
    misfit(where, "a string", value);
  }
}

void from_config(const ConfigValue& value, const std::string& where, Pair& out) {
  if (const auto* list = std::get_if<ConfigList>(&value.data);
      list != nullptr && list->size() == 2) {
    from_config((*list)[0], where + "[0]", out.h);
    from_config((*list)[1], where + "[1]", out.w);
  } else if (std::holds_alternative<std::int64_t>(value.data)) {
    from_config(value, where, out.h);
    out.w = out.h;
  } else {
    misfit(where, "a whole number or a list of two", value);
  }
}

void from_config(const ConfigValue& value, const std::string& where, Sides& out) {
  const auto* list = std::get_if<ConfigList>(&value.data);
  const bool nested =
      list != nullptr && list->size() == 2 && std::holds_alternative<ConfigList>((*list)[0].data);
  Pair vertical, horizontal;
  if (nested) {
    from_config((*list)[0], where + "[0]", vertical);
    from_config((*list)[1], where + "[1]", horizontal);
    out = {vertical.h, vertical.w, horizontal.h, horizontal.w};
  } else {
    from_config(value, where, vertical);
    out = {vertical.h, vertical.w};
  }
}

void from_config(const ConfigValue& value, const std::string& where, Axes& out) {
  out.values.clear();
  if (value.is_null()) return;
  if (std::holds_alternative<ConfigList>(value.data)) return from_config(value, where, out.values);
  from_config(value, where, out.values.emplace_back());
}

void from_config(const ConfigValue& value, const std::string& where, Numbers& out) {
  out.values.clear();
  if (value.is_null()) return;
  const auto* list = std::get_if<ConfigList>(&value.data);
  if (list == nullptr) return from_config(value, where, out.values.emplace_back());
  for (std::size_t i = 0; i < list->size(); ++i) {
    from_config((*list)[i], fmt::format("{}[{}]", where, i), out.values.emplace_back());
  }
}

void from_config(const ConfigValue& value, const std::string& where, Interval& out) {
  const auto* list = std::get_if<ConfigList>(&value.data);
  if (list != nullptr && list->size() == 2) {
    from_config((*list)[0], where + "[0]", out.low);
    from_config((*list)[1], where + "[1]", out.high);
  } else if (list == nullptr) {
    from_config(value, where, out.high);
    out.low = -out.high;
  } else {
    misfit(where, "a number or a list of two", value);
  }
}

void from_config(const ConfigValue& value, const std::string& where, Object& out) {
  if (const auto* name = std::get_if<std::string>(&value.data)) {
    out = Object{*name, {}};
    return;
  }
  const auto* map = std::get_if<ConfigMap>(&value.data);
  const ConfigValue* name = map == nullptr ? nullptr : find(*map, "class_name");
  if (name == nullptr) misfit(where, "an object with a class_name", value);
  from_config(*name, where + ".class_name", out.class_name);
  out.config.clear();
  const ConfigValue* config = find(*map, "config");
  if (config == nullptr || config->is_null()) return;
  const auto* fields = std::get_if<ConfigMap>(&config->data);
  if (fields == nullptr) misfit(where + ".config", "an object", *config);
  out.config = *fields;
}

void from_config(const ConfigValue& value, const std::string& where,
                 std::vector<std::int64_t>& out) {
  const auto* list = std::get_if<ConfigList>(&value.data);
  if (list == nullptr) misfit(where, "a list of whole numbers", value);
  out.assign(list->size(), 0);
  for (std::size_t i = 0; i < list->size(); ++i)
    from_config((*list)[i], fmt::format("{}[{}]", where, i), out[i]);
}

void refuse_unknown_keys(const ConfigMap& map, const std::string& where,
                         const std::vector<std::string_view>& known) {
  for (const auto& [key, value] : map) {
    if (value.is_null() || std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw ConfigError(fmt::format("[{}] unknown key '{}'; expected one of: {}", where,
                                  key.substr(0, 80), fmt::join(known, ", ")));
  }
}

}  // namespace surefit
