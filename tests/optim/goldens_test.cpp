// SPDX-License-Identifier: Apache-2.0
// Keras's numbers for every optimizer and every schedule (tools/goldens/generate.py).
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "support/golden_file.hpp"
#include "support/optimizer_rig.hpp"

namespace surefit {
namespace {

TEST(OptimizerGoldens, AgreeWithKeras) {
  const GoldenFile file("optimizers");
  const GoldenFile::Case& inputs = file.cases().back();
  const Tensor start = file.read(inputs, "start"), all = file.read(inputs, "gradients");
  std::vector<Tensor> gradients;
  for (std::int64_t step = 0; step < all.shape()[0]; ++step)
    gradients.push_back(all.slice(step, step + 1).reshape(start.shape()));
  std::set<std::string> seen = {"Adafactor"};  // by shapes of parameters, in optimizers_test.cpp
  for (const GoldenFile::Case& golden : file.cases()) {
    if (golden.class_name == inputs.class_name) continue;
    SCOPED_TRACE(golden.describe());
    seen.insert(golden.class_name);
    const std::vector<Tensor> got =
        run_optimizer(Optimizer::from_config(golden.class_name, golden.config), start, gradients);
    const Tensor expected = file.read(golden, "steps");
    ASSERT_EQ(expected.shape(), start.shape().prepend(all.shape()[0]));
    for (std::size_t step = 0; step < got.size(); ++step) {
      for (std::size_t i = 0; i < start.count(); ++i) {
        // The weights are below 1, so this is their rounding over six steps.
        ASSERT_NEAR(got[step].values<float>()[i],
                    expected.values<float>()[step * start.count() + i], 1e-6)
            << "step " << step << " element " << i;
      }
    }
  }
  expect_covered(seen, class_names(BuiltinOptimizers{}));
}

TEST(ScheduleGoldens, AgreeWithKeras) {
  const GoldenFile file("schedules");
  std::set<std::string> seen;
  for (const GoldenFile::Case& golden : file.cases()) {
    SCOPED_TRACE(golden.describe());
    seen.insert(golden.class_name);
    const ConfigMap object = {{"class_name", ConfigValue(golden.class_name)},
                              {"config", ConfigValue(golden.config)}};
    const LearningRate rate = LearningRate::from_config(ConfigValue(object), "schedule");
    std::int64_t step = 0;
    for (const Json& expected : golden.json["rates"]) {
      const double want = expected;
      EXPECT_NEAR(rate.at(step), want, 1e-9 * std::abs(want)) << "step " << step;
      ++step;
    }
  }
  expect_covered(seen, class_names(BuiltinSchedules{}));
}

}  // namespace
}  // namespace surefit
