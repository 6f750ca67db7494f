// SPDX-License-Identifier: Apache-2.0
// The files of tests/data/goldens: FAMILY.json lists cases, FAMILY.npz holds their arrays.
// tools/goldens/generate.py makes them.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "surefit/config.hpp"
#include "surefit/tensor.hpp"

#include "interop/json.hpp"
#include "interop/npy.hpp"

namespace surefit {

class GoldenFile {
 public:
  explicit GoldenFile(const std::string& family);

  struct Case {
    std::size_t index = 0;
    std::string class_name;
    ConfigMap config;
    Json json;  // the whole entry

    std::string describe() const;
  };
  const std::vector<Case>& cases() const { return cases_; }
  bool contains(const Case& golden, const std::string& name) const;
  Tensor read(const Case& golden, const std::string& name) const;

 private:
  std::vector<Case> cases_;
  std::optional<NpzFile> arrays_;  // a family of numbers in the JSON has none
};

// Fails the test unless every element is within `tolerance` of the largest expected value.
void expect_close(const Tensor& got, const Tensor& expected, double tolerance,
                  const std::string& what);

// Fails the test unless each of the library's classes is among those of the goldens, and the other
// way round.
void expect_covered(const std::set<std::string>& golden,
                    const std::vector<std::string_view>& library);

template <typename... Specs>
std::vector<std::string_view> class_names(TypeList<Specs...>) {
  return {Specs::kClass...};
}

}  // namespace surefit
