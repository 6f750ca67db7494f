// SPDX-License-Identifier: Apache-2.0
#include "interop/json.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <new>
#include <set>

#include "surefit/error.hpp"

#include "interop/bytes.hpp"

namespace surefit {
namespace {

// The parser's messages and a file's keys hold bytes of the file: only what is fit for a terminal
// may get into an error.
std::string printable(std::string_view text, std::size_t most = 200) {
  std::string out(text.substr(0, most));
  for (char& c : out) c = c >= ' ' && c <= '~' ? c : '?';
  return out + (text.size() > most ? "..." : "");
}

// Watches the parser's events: the DOM keeps the last of two equal keys without a word, and grows
// as deep as it is told.
class Watcher {
 public:
  Watcher(const std::string& file, std::size_t max_depth) : file_(file), max_depth_(max_depth) {}

  void operator()(Json::parse_event_t event, const Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        if (open_.size() >= max_depth_) {
          JsonWhere(file_).refuse("nested too deep", fmt::format("at most {} levels", max_depth_),
                                  "more");
        }
        open_.emplace_back();
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        if (!open_.empty()) open_.pop_back();
        break;
      case Json::parse_event_t::key: {
        const auto& key = parsed.get_ref<const std::string&>();
        if (!open_.empty() && !open_.back().insert(key).second) {
          JsonWhere(file_).refuse("a key appears twice", "each key once", in_quotes(key));
        }
        break;
      }
      case Json::parse_event_t::value:
        break;
    }
  }

 private:
  const std::string& file_;
  std::size_t max_depth_;
  std::vector<std::set<std::string>> open_;
};

}  // namespace

JsonWhere JsonWhere::at(std::string_view key) const {
  JsonWhere child = *this;
  if (!child.path_.empty()) child.path_ += '.';
  child.path_ += key;
  return child;
}

JsonWhere JsonWhere::at(std::size_t index) const {
  JsonWhere child = *this;
  child.path_ += fmt::format("[{}]", index);
  return child;
}

void JsonWhere::refuse(std::string_view what, std::string_view expected,
                       std::string_view got) const {
  const std::string place = printable(path_);
  throw DataError(fmt::format("[{}{}{}] {}; expected {}; got {}", file_, place.empty() ? "" : ": ",
                              place, what, expected, got),
                  file_);
}

void JsonWhere::refuse_value(std::string_view what, std::string_view expected,
                             const Json& got) const {
  refuse(what, expected, describe_json(got));
}

Json parse_json(std::string_view text, const std::string& file, JsonLimits limits) {
  if (text.size() > limits.max_bytes) {
    JsonWhere(file).refuse("too large", fmt::format("at most {} bytes of JSON", limits.max_bytes),
                           fmt::format("{}", text.size()));
  }
  // The parser takes a NUL for the end and would overlook what follows.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw DataError(
        fmt::format("[{}] not JSON; expected valid JSON; got a NUL character (byte {})", file, nul),
        file, static_cast<std::int64_t>(nul));
  }
  Watcher watcher(file, limits.max_depth);
  try {
    return Json::parse(text.begin(), text.end(),
                       [&watcher](int, Json::parse_event_t event, Json& parsed) {
                         watcher(event, parsed);
                         return true;
                       });
  } catch (const Json::parse_error& error) {
    throw DataError(fmt::format("[{}] not JSON; expected valid JSON; got {} (byte {})", file,
                                printable(error.what()), error.byte),
                    file, static_cast<std::int64_t>(error.byte));
  } catch (const std::bad_alloc&) {
    throw SystemError(fmt::format("[{}] cannot allocate for {} bytes of JSON", file, text.size()),
                      ENOMEM);
  } catch (const Json::exception& error) {
    throw DataError(
        fmt::format("[{}] not JSON; expected valid JSON; got {}", file, printable(error.what())),
        file);
  }
}

Json read_json(Env& env, const std::string& path, JsonLimits limits) {
  return parse_json(read_file(env, path, limits.max_bytes), path, limits);
}

std::string dump_json(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string describe_json(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      return fmt::format("an object of {} members", value.size());
    case Json::value_t::array:
      if (value.size() > 8 || std::any_of(value.begin(), value.end(),
                                          [](const Json& v) { return v.is_structured(); })) {
        return fmt::format("an array of {} values", value.size());
      }
      break;
    case Json::value_t::string:
      return in_quotes(value.get_ref<const std::string&>());
    default:
      break;
  }
  return printable(dump_json(value), 80);
}

const Json& require_object(const Json& value, const JsonWhere& where) {
  if (!value.is_object()) where.refuse_value("wrong type", "an object", value);
  return value;
}

const Json& require_array(const Json& value, const JsonWhere& where) {
  if (!value.is_array()) where.refuse_value("wrong type", "an array", value);
  return value;
}

const std::string& require_string(const Json& value, const JsonWhere& where) {
  if (!value.is_string()) where.refuse_value("wrong type", "a string", value);
  return value.get_ref<const std::string&>();
}

bool require_bool(const Json& value, const JsonWhere& where) {
  if (!value.is_boolean()) where.refuse_value("wrong type", "true or false", value);
  return value.get<bool>();
}

std::int64_t require_int(const Json& value, const JsonWhere& where, std::int64_t min,
                         std::int64_t max) {
  const auto wanted = [&] {
    const bool bounded_above = max != std::numeric_limits<std::int64_t>::max();
    const bool bounded_below = min != std::numeric_limits<std::int64_t>::min();
    if (bounded_above && bounded_below) return fmt::format("an integer from {} to {}", min, max);
    if (bounded_below) return fmt::format("an integer of at least {}", min);
    if (bounded_above) return fmt::format("an integer of at most {}", max);
    return std::string("a 64-bit integer");
  };
  std::int64_t number = 0;
  if (value.is_number_unsigned()) {
    const auto wide = value.get<std::uint64_t>();
    if (wide > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      where.refuse_value("out of range", wanted(), value);
    }
    number = static_cast<std::int64_t>(wide);
  } else if (value.is_number_integer()) {
    number = value.get<std::int64_t>();
  } else if (value.is_number_float()) {
    const double real = value.get<double>();
    // Up to 2^53 a double names one integer only.
    if (!(std::abs(real) <= 0x1p53) || std::trunc(real) != real) {
      where.refuse_value("not an integer", wanted(), value);
    }
    number = static_cast<std::int64_t>(real);
  } else {
    where.refuse_value("wrong type", wanted(), value);
  }
  if (number < min || number > max) where.refuse_value("out of range", wanted(), value);
  return number;
}

double require_number(const Json& value, const JsonWhere& where) {
  if (!value.is_number()) where.refuse_value("wrong type", "a number", value);
  const double number = value.get<double>();
  if (!std::isfinite(number)) where.refuse_value("not finite", "a finite number", value);
  return number;
}

const Json* find_field(const Json& object, std::string_view field, const JsonWhere& where) {
  require_object(object, where);
  const auto found = object.find(field);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json& get_field(const Json& object, std::string_view field, const JsonWhere& where) {
  require_object(object, where);
  const auto found = object.find(field);
  if (found == object.end()) where.at(field).refuse("missing", "a value", "nothing");
  return *found;
}

const Json& get_object(const Json& object, std::string_view field, const JsonWhere& where) {
  return require_object(get_field(object, field, where), where.at(field));
}

const Json& get_array(const Json& object, std::string_view field, const JsonWhere& where) {
  return require_array(get_field(object, field, where), where.at(field));
}

const std::string& get_string(const Json& object, std::string_view field, const JsonWhere& where) {
  return require_string(get_field(object, field, where), where.at(field));
}

bool get_bool(const Json& object, std::string_view field, const JsonWhere& where) {
  return require_bool(get_field(object, field, where), where.at(field));
}

std::int64_t get_int(const Json& object, std::string_view field, const JsonWhere& where,
                     std::int64_t min, std::int64_t max) {
  return require_int(get_field(object, field, where), where.at(field), min, max);
}

double get_number(const Json& object, std::string_view field, const JsonWhere& where) {
  return require_number(get_field(object, field, where), where.at(field));
}

std::vector<std::int64_t> get_ints(const Json& object, std::string_view field,
                                   const JsonWhere& where, std::int64_t min, std::int64_t max) {
  const Json& array = get_array(object, field, where);
  std::vector<std::int64_t> numbers;
  numbers.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) {
    numbers.push_back(require_int(array[i], where.at(field).at(i), min, max));
  }
  return numbers;
}

ConfigValue to_config_value(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return ConfigValue(json.get<bool>());
    case Json::value_t::number_integer:
      return ConfigValue(json.get<std::int64_t>());
    case Json::value_t::number_unsigned:
      return ConfigValue(static_cast<std::int64_t>(json.get<std::uint64_t>()));
    case Json::value_t::number_float:
      return ConfigValue(json.get<double>());
    case Json::value_t::string:
      return ConfigValue(json.get<std::string>());
    case Json::value_t::array: {
      ConfigList list;
      for (const Json& item : json) list.push_back(to_config_value(item));
      return ConfigValue(std::move(list));
    }
    case Json::value_t::object: {
      ConfigMap map;
      for (const auto& [key, value] : json.items()) map.emplace_back(key, to_config_value(value));
      return ConfigValue(std::move(map));
    }
    default:
      return {};
  }
}

void allow_only(const Json& object, std::initializer_list<std::string_view> known,
                const JsonWhere& where) {
  for (const auto& item : require_object(object, where).items()) {
    if (std::find(known.begin(), known.end(), item.key()) == known.end()) {
      where.at(item.key())
          .refuse("unknown field", fmt::format("{}", fmt::join(known, ", ")),
                  in_quotes(item.key()));
    }
  }
}

}  // namespace surefit
