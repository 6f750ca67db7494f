// SPDX-License-Identifier: Apache-2.0
// The state of a run as JSON. Writing appends to a string that has room: nothing is allocated
// during training.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "surefit/callbacks.hpp"

#include "interop/json.hpp"

namespace surefit {

// Members of objects and items of arrays, with commas where they belong.
class StateText {
 public:
  explicit StateText(std::string& out) : out_(out) { out_.clear(); }

  void open_object() { open('{'); }
  void open_object(std::string_view key) { name(key), open('{'); }
  void open_array() { open('['); }
  void open_array(std::string_view key) { name(key), open('['); }
  void close_object() { out_ += '}'; }
  void close_array() { out_ += ']'; }
  template <typename T>
  void member(std::string_view key, const T& value) {
    name(key);
    put(value);
  }
  template <typename T>
  void item(const T& value) {
    comma();
    put(value);
  }
  void raw_member(std::string_view key, std::string_view json) {
    name(key);
    out_ += json;
  }

 private:
  void open(char bracket);
  void comma();
  void name(std::string_view key);
  void put(bool value) { out_ += value ? "true" : "false"; }
  void put(std::int64_t value);
  void put(std::uint64_t value);
  void put(double value);  // reads back to the same bits
  void put(std::string_view text);
  void put(const std::string& text) { put(std::string_view(text)); }

  std::string& out_;
};

// A number that StateText wrote. Throws DataError.
double state_number(const Json& value, const JsonWhere& where);

// Members of a callback, into the text and out of it.
class StateTextVisitor final : public StateVisitor {
 public:
  explicit StateTextVisitor(StateText& text) : text_(text) {}
  void field(std::string_view name, bool& value) override { text_.member(name, value); }
  void field(std::string_view name, std::int64_t& value) override { text_.member(name, value); }
  void field(std::string_view name, double& value) override { text_.member(name, value); }
  void field(std::string_view name, std::string& value) override { text_.member(name, value); }

 private:
  StateText& text_;
};

class StateJsonVisitor final : public StateVisitor {
 public:
  StateJsonVisitor(const Json& json, JsonWhere where) : json_(json), where_(std::move(where)) {}
  void field(std::string_view name, bool& value) override { value = get_bool(json_, name, where_); }
  void field(std::string_view name, std::int64_t& value) override {
    value = get_int(json_, name, where_);
  }
  void field(std::string_view name, double& value) override {
    value = state_number(get_field(json_, name, where_), where_.at(name));
  }
  void field(std::string_view name, std::string& value) override {
    value = get_string(json_, name, where_);
  }

 private:
  const Json& json_;
  JsonWhere where_;
};

}  // namespace surefit
