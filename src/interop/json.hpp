// SPDX-License-Identifier: Apache-2.0
// JSON from untrusted files: bounded in size and depth, no key twice, and access that says which
// field of which file is wrong. Errors are DataError "[file: path.to.field] what; expected ...; got
// ...".
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "surefit/config.hpp"

#include "base/env.hpp"
#include "interop/json_fwd.hpp"

namespace surefit {

struct JsonLimits {
  std::size_t max_bytes = std::size_t{64} << 20;
  std::size_t max_depth = 64;  // copying, dumping and destroying a value recurse
};

// Where a value stands: the file and the path inside it.
class JsonWhere {
 public:
  JsonWhere(std::string file) : file_(std::move(file)) {}  // NOLINT: a file name is a place
  JsonWhere(const char* file) : file_(file) {}             // NOLINT
  JsonWhere at(std::string_view key) const;
  JsonWhere at(std::size_t index) const;
  const std::string& file() const { return file_; }
  const std::string& path() const { return path_; }
  [[noreturn]] void refuse(std::string_view what, std::string_view expected,
                           std::string_view got) const;
  [[noreturn]] void refuse_value(std::string_view what, std::string_view expected,
                                 const Json& got) const;

 private:
  std::string file_;
  std::string path_;
};

Json parse_json(std::string_view text, const std::string& file, JsonLimits limits = {});
Json read_json(Env& env, const std::string& path, JsonLimits limits = {});

// Never throws on text that is not UTF-8: bad bytes become U+FFFD. indent < 0 is one line.
std::string dump_json(const Json& value, int indent = -1);

// A short description of a value for messages: its kind, and its text when that is short.
std::string describe_json(const Json& value);

const Json& require_object(const Json& value, const JsonWhere& where);
const Json& require_array(const Json& value, const JsonWhere& where);
const std::string& require_string(const Json& value, const JsonWhere& where);
bool require_bool(const Json& value, const JsonWhere& where);
// A float with an integral value (Keras writes 1.0 for some) counts as an integer.
std::int64_t require_int(const Json& value, const JsonWhere& where,
                         std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                         std::int64_t max = std::numeric_limits<std::int64_t>::max());
double require_number(const Json& value, const JsonWhere& where);  // finite

// The member `field`, nullptr when absent or null. `object` must be an object.
const Json* find_field(const Json& object, std::string_view field, const JsonWhere& where);
// The member `field`; absent is an error, null is not.
const Json& get_field(const Json& object, std::string_view field, const JsonWhere& where);

const Json& get_object(const Json& object, std::string_view field, const JsonWhere& where);
const Json& get_array(const Json& object, std::string_view field, const JsonWhere& where);
const std::string& get_string(const Json& object, std::string_view field, const JsonWhere& where);
bool get_bool(const Json& object, std::string_view field, const JsonWhere& where);
std::int64_t get_int(const Json& object, std::string_view field, const JsonWhere& where,
                     std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                     std::int64_t max = std::numeric_limits<std::int64_t>::max());
double get_number(const Json& object, std::string_view field, const JsonWhere& where);
// An array of integers, each within [min, max].
std::vector<std::int64_t> get_ints(const Json& object, std::string_view field,
                                   const JsonWhere& where,
                                   std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                                   std::int64_t max = std::numeric_limits<std::int64_t>::max());

// The same value for the field tables of specs.
ConfigValue to_config_value(const Json& json);

// Every member must be one of `known`; a misspelt option is an error, not silence.
void allow_only(const Json& object, std::initializer_list<std::string_view> known,
                const JsonWhere& where);

}  // namespace surefit
