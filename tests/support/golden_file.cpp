// SPDX-License-Identifier: Apache-2.0
#include "support/golden_file.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include <gtest/gtest.h>

namespace surefit {

GoldenFile::GoldenFile(const std::string& family) {
  Env& env = Env::posix();
  const std::string path = std::string(SUREFIT_TEST_DATA) + "/goldens/" + family;
  bool arrays = false;
  for (const Json& entry : read_json(env, path + ".json")) {
    Case golden{cases_.size(), entry["class_name"], {}, entry};
    if (entry.contains("config"))
      golden.config = std::get<ConfigMap>(to_config_value(entry["config"]).data);
    arrays = arrays || !(entry.contains("rates"));
    cases_.push_back(std::move(golden));
  }
  if (arrays) arrays_ = NpzFile::open(env, path + ".npz");
}

std::string GoldenFile::Case::describe() const {
  return fmt::format("case {}: {} {}", index, class_name, ConfigValue(config).to_string());
}

bool GoldenFile::contains(const Case& golden, const std::string& name) const {
  return arrays_->contains(fmt::format("{}.{}", golden.index, name));
}

Tensor GoldenFile::read(const Case& golden, const std::string& name) const {
  return arrays_->read(fmt::format("{}.{}", golden.index, name));
}

void expect_close(const Tensor& got, const Tensor& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  const auto a = got.values<float>(), b = expected.values<float>();
  double scale = 0;
  for (const float value : b) scale = std::max(scale, std::abs(static_cast<double>(value)));
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance * scale) << what << " element " << i;
  }
}

void expect_covered(const std::set<std::string>& golden,
                    const std::vector<std::string_view>& library) {
  for (const std::string_view name : library)
    EXPECT_TRUE(golden.contains(std::string(name))) << name << " has no golden";
  for (const std::string& name : golden) {
    EXPECT_NE(std::find(library.begin(), library.end(), name), library.end())
        << "a golden of '" << name << "', which does not exist";
  }
}

}  // namespace surefit
