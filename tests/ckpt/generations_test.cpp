// SPDX-License-Identifier: Apache-2.0
#include "ckpt/generations.hpp"

#include <gtest/gtest.h>

#include "surefit/error.hpp"

#include "ckpt/model_env.hpp"
#include "ckpt/support.hpp"

namespace surefit {
namespace {

void save(Env& env, const std::string& directory, std::uint64_t step) {
  TestSource source(step);
  write_checkpoint(env, directory + "/" + generation_name(step),
                   {.tensors = test_tensors(), .step = step, .state = test_state(step)}, source);
}

TEST(Generations, NamesAndSteps) {
  EXPECT_EQ(generation_name(123), "step-00000123.safetensors");
  EXPECT_EQ(generation_step("step-00000123.safetensors"), 123u);
  EXPECT_EQ(generation_step(generation_name(123456789012)), 123456789012u);
  for (const char* name : {"step-123.safetensors", "step-00000123.safetensors.partial0",
                           "best.safetensors", "step-.safetensors", "step-0000012x.safetensors"}) {
    EXPECT_FALSE(generation_step(name)) << name;
  }
}

TEST(Generations, KeepsTheNewestAndTakesAwayTheRest) {
  ModelEnv env;
  Saver saver(env, "c", 3, test_tensors());
  for (std::uint64_t step = 1; step <= 6; ++step) {
    TestSource source(step);
    ASSERT_TRUE(saver.save_now(step, test_state(step), source).saved);
  }
  EXPECT_EQ(env.list("c"),
            (std::vector<std::string>{generation_name(4), generation_name(5), generation_name(6)}));
}

TEST(Generations, ABadFileDoesNotCountAsGood) {
  ModelEnv env;
  for (const std::uint64_t step : {10, 20, 30}) save(env, "c", step);
  ModelEnv::Files files = env.files();
  files["c/" + generation_name(30)].resize(2000);
  files["c/" + generation_name(40)] = "";
  files["c/step-00000050.safetensors.partial3"] = "half";
  files["c/notes.txt"] = "mine";
  ModelEnv disk(files);
  Saver saver(disk, "c", 2, test_tensors());
  TestSource source(35);
  ASSERT_TRUE(saver.save_now(35, test_state(35), source).saved);
  // 20 and 35 are good; 10 is older, 30 and 40 are broken, the half-written one is nobody's any
  // more.
  EXPECT_EQ(disk.list("c"),
            (std::vector<std::string>{"notes.txt", generation_name(20), generation_name(35)}));
}

TEST(Generations, NothingGoesWhileOnlyOneIsGood) {
  ModelEnv env;
  save(env, "c", 10);
  ModelEnv::Files files = env.files();
  files["c/" + generation_name(30)] = "broken";
  ModelEnv disk(files);
  Generations generations(disk, "c", 2);
  EXPECT_EQ(generations.good(), std::vector<std::uint64_t>{10});
  EXPECT_EQ(generations.prune(), 0);
  EXPECT_EQ(disk.files().size(), 2u);
}

TEST(Generations, RefusesToKeepFewerThanTwo) {
  ModelEnv env;
  EXPECT_THROW(Generations(env, "c", 1), ConfigError);
}

TEST(Generations, ARenamedFileIsNotTaken) {
  ModelEnv env;
  save(env, "c", 10);
  ModelEnv disk(
      ModelEnv::Files{{"c/" + generation_name(99), env.files().at("c/" + generation_name(10))}});
  const FoundCheckpoint found = find_newest(disk, "c");
  EXPECT_FALSE(found.file);
  ASSERT_EQ(found.skipped.size(), 1u);
  EXPECT_NE(found.skipped[0].reason.find("holds step 10"), std::string::npos);
}

TEST(Generations, AMissingDirectoryHasNone) {
  ModelEnv env;
  EXPECT_FALSE(find_newest(env, "nowhere").file);
}

}  // namespace
}  // namespace surefit
