// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "surefit/zoo.hpp"

#include "plan/plan.hpp"
#include "train/model_impl.hpp"

namespace surefit {
namespace {

// The real models meet the bound that the design promises for every way of cutting the batch.
TEST(ZooPlans, StayWithinOnePercentOfTheLiveBound) {
  for (const std::string& name : zoo_names()) {
    const Model model = zoo_model(name);
    const Compiled compiled = {"adam", {{"mse"}}};
    const Program program(model.impl().network, &compiled, Program::Purpose::kTrain);
    for (const std::int64_t group : {0, 1, 8}) {
      const Plan plan = make_plan(program.graph(), {.batch = 32, .threads = 2, .group = group});
      EXPECT_LE(static_cast<double>(plan.arena_bytes),
                1.01 * static_cast<double>(plan.max_live_bytes))
          << name << ", group " << group;
    }
  }
}

}  // namespace
}  // namespace surefit
