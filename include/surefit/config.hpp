// SPDX-License-Identifier: Apache-2.0
// Field tables: a spec struct lists its fields once, and JSON, checkpoint metadata, command-line
// arguments, help and unknown-key errors all come from that list:
//
//   static void fields(auto& field) { field("filters", &Conv2D::filters); }
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "surefit/error.hpp"

namespace surefit {

struct ConfigValue;
using ConfigList = std::vector<ConfigValue>;
using ConfigMap = std::vector<std::pair<std::string, ConfigValue>>;  // in order

// A JSON-like value, free of any JSON library.
struct ConfigValue {
  std::variant<std::monostate, bool, std::int64_t, double, std::string, ConfigList, ConfigMap> data;

  ConfigValue() = default;
  template <typename T>
  requires(!std::is_same_v<std::decay_t<T>, ConfigValue>) ConfigValue(T&& value)
      : data(std::forward<T>(value)) {}  // NOLINT(google-explicit-constructor): a value wrapper

  bool is_null() const { return std::holds_alternative<std::monostate>(data); }
  std::string to_string() const;  // compact, for messages
  bool operator==(const ConfigValue&) const = default;
};

const ConfigValue* find(const ConfigMap& map, std::string_view key);

// Two extents, written {3, 3} or just 3.
struct Pair {
  int h = 1, w = 1;
  constexpr Pair(int both = 1)
      : h(both), w(both) {}  // NOLINT(google-explicit-constructor): Keras allows kernel_size=3
  constexpr Pair(int height, int width) : h(height), w(width) {}
  bool operator==(const Pair&) const = default;
};

// Pixels at the four sides of a picture, written like Keras's padding: 1, {height, width} or all
// four.
struct Sides {
  int top = 0, bottom = 0, left = 0, right = 0;
  constexpr Sides(int all = 0)  // NOLINT(google-explicit-constructor): Keras allows padding=1
      : top(all), bottom(all), left(all), right(all) {}
  constexpr Sides(int height, int width) : top(height), bottom(height), left(width), right(width) {}
  constexpr Sides(int t, int b, int l, int r) : top(t), bottom(b), left(l), right(r) {}
  bool operator==(const Sides&) const = default;
};

// Axes as Keras writes them: -1, or {1, 2, 3}.
struct Axes {
  std::vector<std::int64_t> values = {};
  Axes() = default;
  Axes(std::initializer_list<std::int64_t> list) : values(list) {}
  bool operator==(const Axes&) const = default;
};

// One number or one for each channel; empty is null.
struct Numbers {
  std::vector<double> values = {};
  Numbers() = default;
  Numbers(double one) : values{one} {}  // NOLINT(google-explicit-constructor): scale = 0.5
  Numbers(std::initializer_list<double> list) : values(list) {}
  bool operator==(const Numbers&) const = default;
};

// From low to high; one number stands for [-number, number].
struct Interval {
  double low = 0, high = 0;
  constexpr Interval(double both = 0)
      : low(-both), high(both) {}  // NOLINT(google-explicit-constructor): factor=0.1
  constexpr Interval(double from, double to) : low(from), high(to) {}
  bool operator==(const Interval&) const = default;
};

// A Keras object known by class and arguments: initializers, regularizers, constraints.
struct Object {
  std::string class_name;
  ConfigMap config = {};
  bool operator==(const Object&) const = default;
  double number(std::string_view key, double fallback) const;
};

// A list of specs, for the one list of each open family.
template <typename... Specs>
struct TypeList {};

// Conversions between members and config values; each throws ConfigError naming `where` on a
// misfit.
ConfigValue to_config(bool value);
ConfigValue to_config(int value);
ConfigValue to_config(std::int64_t value);
ConfigValue to_config(double value);
ConfigValue to_config(const std::string& value);
ConfigValue to_config(const Pair& value);
ConfigValue to_config(const Sides& value);  // [[top, bottom], [left, right]]
ConfigValue to_config(const Axes& value);
ConfigValue to_config(const Numbers& value);
ConfigValue to_config(const Interval& value);
ConfigValue to_config(const Object& value);
ConfigValue to_config(const std::vector<std::int64_t>& value);
template <typename T>
ConfigValue to_config(const std::optional<T>& value) {
  return value ? to_config(*value) : ConfigValue{};
}

void from_config(const ConfigValue& value, const std::string& where, bool& out);
void from_config(const ConfigValue& value, const std::string& where, int& out);
void from_config(const ConfigValue& value, const std::string& where, std::int64_t& out);
void from_config(const ConfigValue& value, const std::string& where, double& out);
void from_config(const ConfigValue& value, const std::string& where, std::string& out);
void from_config(const ConfigValue& value, const std::string& where, Pair& out);
void from_config(const ConfigValue& value, const std::string& where, Sides& out);
void from_config(const ConfigValue& value, const std::string& where, Axes& out);
void from_config(const ConfigValue& value, const std::string& where, Numbers& out);
void from_config(const ConfigValue& value, const std::string& where, Interval& out);
void from_config(const ConfigValue& value, const std::string& where, Object& out);
void from_config(const ConfigValue& value, const std::string& where,
                 std::vector<std::int64_t>& out);
template <typename T>
void from_config(const ConfigValue& value, const std::string& where, std::optional<T>& out) {
  if (value.is_null()) {
    out.reset();
  } else {
    T inner{};
    from_config(value, where, inner);
    out = std::move(inner);
  }
}

void refuse_unknown_keys(const ConfigMap& map, const std::string& where,
                         const std::vector<std::string_view>& known);

template <typename Spec>
ConfigMap spec_to_config(const Spec& spec) {
  ConfigMap map;
  const auto write = [&](std::string_view name, auto member, std::string_view = "") {
    map.emplace_back(std::string(name), to_config(spec.*member));
  };
  Spec::fields(write);
  return map;
}

// Reads every key of `map` into its field; a key without a field is an error that lists those there
// are, unless it is null: Keras's later versions write what is not set.
template <typename Spec>
Spec spec_from_config(const ConfigMap& map, const std::string& where) {
  Spec spec{};
  std::vector<std::string_view> known;
  const auto read = [&](std::string_view name, auto member, std::string_view = "") {
    known.push_back(name);
    for (const auto& [key, value] : map) {
      if (key == name) from_config(value, where + "." + key, spec.*member);
    }
  };
  Spec::fields(read);
  refuse_unknown_keys(map, where, known);
  return spec;
}

}  // namespace surefit
