// SPDX-License-Identifier: Apache-2.0
#include "ckpt/schedule.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "surefit/error.hpp"

namespace surefit {
namespace {

TEST(SaveSchedule, ParsesWhatPeopleWrite) {
  EXPECT_EQ(parse_save_every("auto", "x").unit, SaveEvery::Unit::kAuto);
  EXPECT_EQ(parse_save_every("never", "x").unit, SaveEvery::Unit::kNever);
  EXPECT_EQ(parse_save_every("30s", "x").seconds, 30);
  EXPECT_EQ(parse_save_every("1h30m", "x").seconds, 5400);
  EXPECT_EQ(parse_save_every("500steps", "x").count, 500);
  EXPECT_EQ(parse_save_every("1step", "x").unit, SaveEvery::Unit::kSteps);
  EXPECT_EQ(parse_save_every("2epochs", "x").unit, SaveEvery::Unit::kEpochs);
  for (const char* text :
       {"", "0s", "-3s", "0steps", "-1epoch", "often", "5 parsecs", "1.5steps"}) {
    EXPECT_THROW(parse_save_every(text, "x"), ConfigError) << text;
  }
}

TEST(SaveSchedule, NeverMoreThanOneHundredth) {
  for (const double cost : {0.001, 0.05, 0.5, 3.0, 60.0}) {
    SaveSchedule schedule({}, 1 << 20);
    schedule.measured(cost);
    EXPECT_LE(cost / schedule.interval_s(), 0.01) << cost;
    // And no rarer than Young and Daly say, unless that share forbids it.
    EXPECT_LE(schedule.interval_s(),
              std::max({std::sqrt(2 * cost * 3600), 130 * cost, 1.0}) * 1.0001)
        << cost;
  }
}

TEST(SaveSchedule, DueByTimeStepsAndEpochs) {
  SaveSchedule seconds({.unit = SaveEvery::Unit::kSeconds, .seconds = 10}, 0);
  seconds.begin(100);
  EXPECT_FALSE(seconds.due_after_step(109, 5));
  EXPECT_TRUE(seconds.due_after_step(110, 5));
  SaveSchedule steps({.unit = SaveEvery::Unit::kSteps, .count = 4}, 0);
  EXPECT_TRUE(steps.due_after_step(0, 8));
  EXPECT_FALSE(steps.due_after_step(1e9, 9));
  SaveSchedule epochs({.unit = SaveEvery::Unit::kEpochs, .count = 2}, 0);
  EXPECT_FALSE(epochs.due_after_step(1e9, 8));
  EXPECT_TRUE(epochs.due_after_epoch(4));
  EXPECT_FALSE(epochs.due_after_epoch(5));
  const SaveSchedule never({.unit = SaveEvery::Unit::kNever}, 0);
  EXPECT_FALSE(never.due_after_step(1e9, 1) || never.due_after_epoch(1));
}

TEST(SaveSchedule, TriesLessOftenWhileTheDiskRefuses) {
  SaveSchedule schedule({}, 1 << 20);
  const double before = schedule.interval_s();
  schedule.failed();
  EXPECT_EQ(schedule.interval_s(), 2 * before);
  for (int i = 0; i < 20; ++i) schedule.failed();
  EXPECT_EQ(schedule.interval_s(), 16 * before);
}

}  // namespace
}  // namespace surefit
