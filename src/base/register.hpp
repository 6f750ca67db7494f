// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "surefit/error.hpp"

namespace surefit {

// Makers by name, for classes that are defined in a user's program.
template <typename Maker>
class Register {
 public:
  explicit Register(std::string_view what) : what_(what) {}

  // Throws ConfigError when the name is taken: by the library (`builtin`), or by another class.
  void add(const std::string& name, Maker maker, bool builtin) {
    const std::lock_guard lock(mutex_);
    if (name.empty() || builtin || !makers_.try_emplace(name, std::move(maker)).second) {
      throw ConfigError(fmt::format("[register] the {} '{}' is {}; expected a name of its own",
                                    what_, name,
                                    builtin        ? "one of the library"
                                    : name.empty() ? "without a name"
                                                   : "there already"));
    }
  }
  std::optional<Maker> find(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = makers_.find(name);
    if (found == makers_.end()) return std::nullopt;
    return found->second;
  }

 private:
  std::string_view what_;  // a literal
  mutable std::mutex mutex_;
  std::map<std::string, Maker> makers_;
};

}  // namespace surefit
