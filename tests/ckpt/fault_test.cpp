// SPDX-License-Identifier: Apache-2.0
// Every operation of a save fails once, or from then on: training would go on, the old generation
// stays.
#include <cerrno>

#include <gtest/gtest.h>

#include "ckpt/model_env.hpp"
#include "ckpt/support.hpp"

namespace surefit {
namespace {

constexpr const char* kDirectory = "run/checkpoints";

ModelEnv::Files two_generations() {
  ModelEnv env;
  Saver saver(env, kDirectory, 3, test_tensors());
  for (const std::uint64_t step : {10, 20}) {
    TestSource source(step);
    EXPECT_TRUE(saver.save_now(step, test_state(step), source).saved);
  }
  return env.files();
}

TEST(CheckpointFaults, EveryErrorAtEveryOperation) {
  const ModelEnv::Files files = two_generations();
  std::mt19937 generator(2);
  int cases = 0, failed = 0;
  for (const int error : {ENOSPC, EIO, EROFS, EMFILE, EDQUOT, EACCES}) {
    for (const bool sticky : {false, true}) {
      for (const bool half : {false, true}) {
        bool beyond = false;
        for (int at = 0; !beyond; ++at) {
          ModelEnv env(files);
          Saver saver(env, kDirectory, 3, test_tensors());
          env.restart_count();
          env.fail({.at = at, .error = error, .sticky = sticky, .half_write = half});
          TestSource source(30);
          const SaveReport report = saver.save_now(30, test_state(30), source);
          beyond = env.operations() <= at;
          ++cases;
          failed += !report.saved;
          if (!report.saved) {
            EXPECT_NE(report.problem, "");
          }
          // Whatever the power does now: never less than was reported, never a mixture.
          for (const ModelEnv::Files& after : env.after_crash(generator, 2, 0)) {
            ModelEnv disk(after);
            const FoundCheckpoint found = find_newest(disk, kDirectory);
            ASSERT_TRUE(found.file) << "error " << error << " at " << at;
            EXPECT_TRUE(is_whole(*found.file));
            EXPECT_GE(found.file->step(), report.saved ? 30u : 20u)
                << "error " << error << " at " << at;
          }
          // The next save, with the fault gone, works.
          env.fail({});
          TestSource next(40);
          const SaveReport again = saver.save_now(40, test_state(40), next);
          ASSERT_TRUE(again.saved) << again.problem;
          for (const auto& [path, bytes] : env.files())
            EXPECT_EQ(path.find(".partial"), std::string::npos) << path;
          ASSERT_LT(at, 100);
        }
      }
    }
  }
  EXPECT_GT(cases, 150);
  EXPECT_GT(failed, 100);
}

// The pages of a file whose sync failed count as clean: a second sync of the same file would say
// yes and lie.
TEST(CheckpointFaults, AFailedSyncIsNeverTriedOnTheSameFile) {
  ModelEnv env(two_generations());
  Saver saver(env, kDirectory, 3, test_tensors());
  int sync = 0;
  {
    ModelEnv probe(two_generations());
    Saver other(probe, kDirectory, 3, test_tensors());
    probe.restart_count();
    TestSource source(30);
    const std::size_t before = probe.log().size();
    other.save_now(30, test_state(30), source);
    while (!probe.log()[before + static_cast<std::size_t>(sync)].starts_with("sync ")) ++sync;
  }
  env.restart_count();
  env.fail({.at = sync, .error = EIO});
  TestSource source(30);
  EXPECT_FALSE(saver.save_now(30, test_state(30), source).saved);
  EXPECT_TRUE(saver.save_now(30, test_state(30), source).saved);
  // Between two syncs of that name the file was made anew.
  std::string order;
  for (const std::string& line : env.log()) {
    if (line.starts_with("create run")) order += 'c';
    if (line.starts_with("sync run")) order += 's';
  }
  EXPECT_EQ(order, "cscs");
  // And the second word is true.
  std::mt19937 generator(3);
  for (const ModelEnv::Files& after : env.after_crash(generator, 8)) {
    ModelEnv disk(after);
    EXPECT_EQ(find_newest(disk, kDirectory).file->step(), 30u);
  }
}

TEST(CheckpointFaults, AFullDiskMakesRoomFromOlderGenerations) {
  ModelEnv env;
  Saver saver(env, kDirectory, 5, test_tensors());
  for (const std::uint64_t step : {10, 20, 30, 40}) {
    TestSource source(step);
    ASSERT_TRUE(saver.save_now(step, test_state(step), source).saved);
  }
  env.restart_count();
  env.fail({.at = 2, .error = ENOSPC});  // the reservation
  TestSource source(50);
  const SaveReport report = saver.save_now(50, test_state(50), source);
  EXPECT_TRUE(report.saved);
  EXPECT_NE(report.problem.find("No space left"), std::string::npos) << report.problem;
  EXPECT_NE(report.problem.find("removed 2 older checkpoints"), std::string::npos)
      << report.problem;
  EXPECT_EQ(env.list(kDirectory).size(), 3u);
}

TEST(CheckpointFaults, WhatIsNotFiniteNeverReplacesWhatIs) {
  ModelEnv env(two_generations());
  Saver saver(env, kDirectory, 2, test_tensors());
  TestSource bad(30, false), same(20, false);
  const SaveReport report = saver.save_now(30, test_state(30), bad);
  EXPECT_FALSE(report.saved);
  EXPECT_TRUE(report.not_finite);
  EXPECT_NE(report.problem.find("'conv2d/bias' contains NaN or Inf"), std::string::npos)
      << report.problem;
  EXPECT_FALSE(saver.save_now(20, test_state(20), same).saved);
  EXPECT_EQ(env.files(), two_generations());
}

TEST(CheckpointFaults, ASaveBesideTheTrainingReports) {
  ModelEnv env;
  Saver saver(env, kDirectory, 2, test_tensors());
  TestSource source(7);
  std::string state = test_state(7);
  saver.start(7, state, source);
  saver.wait();
  const auto report = saver.take_report();
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->saved) << report->problem;
  EXPECT_EQ(report->step, 7u);
  EXPECT_FALSE(saver.take_report());
  EXPECT_TRUE(is_whole(*find_newest(env, kDirectory).file));
}

}  // namespace
}  // namespace surefit
