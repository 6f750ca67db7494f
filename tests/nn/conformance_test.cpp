// SPDX-License-Identifier: Apache-2.0
// Every layer of the library through the one harness, and the proof that none is missing.
#include <algorithm>

#include <gtest/gtest.h>

#include "support/layer_conformance.hpp"

namespace surefit::conformance {
namespace {

std::vector<LayerCase> all_cases() {
  std::vector<LayerCase> all;
  for (const auto& [class_name, make] : conformance_cases()) {
    for (LayerCase& layer_case : make()) {
      layer_case.name = class_name + "_" + layer_case.name;
      all.push_back(std::move(layer_case));
    }
  }
  return all;
}

class Conformance : public ::testing::TestWithParam<LayerCase> {};

TEST_P(Conformance, Holds) {
  const std::vector<Failure> failures = check_layer(GetParam());
  EXPECT_TRUE(failures.empty()) << to_string(failures);
}

INSTANTIATE_TEST_SUITE_P(Layers, Conformance, ::testing::ValuesIn(all_cases()),
                         [](const auto& each) { return each.param.name; });

bool has_no_fields(std::string_view name) {
  return conformance_cases().at(std::string(name))()[0].layer.config().empty();
}

TEST(ConformanceIsComplete, EveryLayerHasCases) {
  for (const std::string_view name : layer_class_names()) {
    const auto found = conformance_cases().find(std::string(name));
    ASSERT_NE(found, conformance_cases().end()) << name << " has no conformance cases";
    EXPECT_FALSE(found->second().empty()) << name;
    bool refuses = has_no_fields(name);  // nothing to get wrong
    for (const LayerCase& layer_case : found->second()) {
      EXPECT_EQ(layer_case.layer.class_name(), name) << layer_case.name;
      refuses = refuses || !layer_case.invalid.empty();
    }
    EXPECT_TRUE(refuses) << name << " has no case of an invalid configuration";
  }
}

TEST(ConformanceIsComplete, EveryCaseIsALayer) {
  const auto names = layer_class_names();
  for (const auto& [name, cases] : conformance_cases()) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name << " is no layer";
  }
}

}  // namespace
}  // namespace surefit::conformance
