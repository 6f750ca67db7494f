// SPDX-License-Identifier: Apache-2.0
#include "graph/value.hpp"

#include <fmt/format.h>

#include <array>

namespace surefit {

std::string_view name_of(Category category) {
  static constexpr std::array<std::string_view, kCategoryCount> kNames = {
      "weights", "gradients", "optimizer state", "activations", "data buffers",
      "scratch", "runtime",   "checkpoint staging"};
  return kNames[static_cast<std::size_t>(category)];
}

ValueType ValueType::blocked(Shape picture) {
  ValueType type;
  type.shape = picture;
  type.layout = Layout::kBlocked;
  type.picture = std::move(picture);
  return type;
}

std::size_t ValueType::stored_count() const {
  if (layout == Layout::kPlain) return shape.count();
  return static_cast<std::size_t>(picture[0] * picture[1] * round_up(picture[2], kChannelBlock));
}

std::string ValueType::to_string() const {
  return fmt::format("{}{} {}{}", batched ? "batch of " : "", shape.to_string(), name_of(dtype),
                     layout == Layout::kBlocked ? " blocked" : "");
}

}  // namespace surefit
