// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

LayerCase input(std::string name, std::vector<std::int64_t> shape) {
  return {
      .name = std::move(name),
      .layer = InputLayer{.shape = std::move(shape)},
      .reference = [](const std::vector<Array>& inputs, const Parameters&) { return inputs[0]; }};
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list = {input("picture", {3, 2, 5}), input("row", {13}),
                                 input("one", {1})};
  list[0].invalid = {{"shape", ConfigList{std::int64_t{0}, std::int64_t{3}}},
                     {"shape", ConfigList{std::int64_t{-1}}},
                     {"shape", ConfigList{std::string("a")}},
                     {"shape", std::int64_t{3}}};
  return list;
}

const bool kAdded = add_conformance("InputLayer", cases);

TEST(InputLayer, TakesNoInput) {
  EXPECT_THROW(Layer(InputLayer{.shape = {3}})(Input({3})), ConfigError);
}

}  // namespace
}  // namespace surefit::conformance
