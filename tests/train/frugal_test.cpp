// SPDX-License-Identifier: Apache-2.0
// Convolutions that transform their weights a slice at a time: less memory, the same bits.
#include "plan/search.hpp"
#include "train/planned_step.hpp"

namespace surefit {
namespace {

const FitOptions kWinograd{.convolutions = Convolutions::kWinograd};

// Slices of Winograd's weights that are whole and ragged, with bias and relu and without.
Sequential wide_model() {
  Sequential model(
      {6, 6, 1}, {Conv2D{.filters = 24, .kernel_size = 3, .padding = "same", .activation = "relu"},
                  Conv2D{.filters = 136, .kernel_size = 3, .padding = "same", .use_bias = false},
                  BatchNormalization{}, ReLU{},
                  Conv2D{.filters = 40, .kernel_size = 3, .padding = "same", .activation = "relu"},
                  Flatten{}, Dense{.units = 3, .activation = "softmax"}});
  model.compile(
      {.optimizer = SGD{.learning_rate = 0.1}, .loss = "sparse_categorical_crossentropy"});
  return model;
}

TEST(Frugal, TheSameBitsForAnyGroupAndThreads) {
  const StepOutcome base = planned_step(wide_model(), {}, 0, 23, 24, {}, kWinograd);
  for (const std::int64_t group : {0, 1, 5, 8}) {
    for (const int threads : {1, 2, 3}) {
      PlanOptions options{.threads = threads, .group = group};
      const StepOutcome plain = planned_step(wide_model(), {}, 0, 23, 24, options, kWinograd);
      options.frugal = true;
      const StepOutcome frugal = planned_step(wide_model(), {}, 0, 23, 24, options, kWinograd);
      EXPECT_EQ(frugal.losses, base.losses) << "group " << group << " threads " << threads;
      EXPECT_EQ(frugal.state, base.state) << "group " << group << " threads " << threads;
      EXPECT_LT(frugal.live_bytes, plain.live_bytes) << "group " << group << " threads " << threads;
    }
  }
}

TEST(Frugal, TheSearchTurnsToItWhereNothingElseFits) {
  const Sequential model = wide_model();
  const Program program = training_program(model.impl(), kWinograd, {});
  PlanSearch search(program.graph(), {.batch = 24, .threads = 2, .allow_spill = false});
  EXPECT_FALSE(search.finish(search.fastest()).frugal);
  const std::size_t plain = search.smallest().live_bytes, floor = search.floor().live_bytes;
  ASSERT_LT(floor, plain);
  const auto found = search.plan_within(plain - 1);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->plan.frugal);
  EXPECT_LT(found->plan.arena_bytes, plain);
  EXPECT_NO_THROW(verify(program.graph(), found->plan));
  EXPECT_TRUE(search.finish(search.floor()).frugal);
}

TEST(Frugal, ExactConvolutionsHaveNoSuchForm) {
  const Sequential model = wide_model();
  const FitOptions exact{.convolutions = Convolutions::kExact};
  EXPECT_TRUE(training_program(model.impl(), kWinograd, {}).graph().frugal());
  EXPECT_FALSE(training_program(model.impl(), exact, {}).graph().frugal());
}

}  // namespace
}  // namespace surefit
