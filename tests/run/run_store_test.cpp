// SPDX-License-Identifier: Apache-2.0
#include "run/run_store.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "surefit/error.hpp"

namespace surefit {
namespace {

class RunStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = testing::TempDir() + "store" + std::to_string(::getpid());
    std::filesystem::create_directories(directory_);
    path_ = directory_ + "/run.sqlite";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string directory_, path_;
};

TEST_F(RunStoreTest, RoundTrip) {
  RunStore store(path_);
  store.set("name", "first");
  store.set("name", "second");
  const ScalarRow rows[] = {
      {1, 0, "loss", 2.5, 10}, {2, 1, "loss", std::nan(""), 11}, {2, 1, "accuracy", 0.5, 11}};
  store.add(rows);
  const MemoryRow memory[] = {{1.5, "guard", 100, 90, 120, 0}};
  store.add(memory);
  store.add(EventRow{3, "checkpoint", R"({"step":2})"});

  const RunReader reader(path_);
  EXPECT_EQ(reader.values().at("name"), "second");
  ASSERT_EQ(reader.scalars("loss").size(), 2u);
  EXPECT_TRUE(std::isnan(reader.scalars("loss")[1].value));
  EXPECT_EQ(reader.scalar_names(), (std::vector<std::string>{"accuracy", "loss"}));
  EXPECT_EQ(reader.last_scalars().size(), 2u);
  ASSERT_EQ(reader.memory().size(), 1u);
  EXPECT_EQ(reader.memory()[0].cgroup, 120u);
  ASSERT_EQ(reader.events().size(), 1u);
  EXPECT_EQ(reader.events()[0].kind, "checkpoint");

  store.forget_from(1);
  ASSERT_EQ(reader.scalars("loss").size(), 1u);
  EXPECT_EQ(reader.scalars("loss")[0].step, 1);
}

TEST_F(RunStoreTest, TwoWritersAtOnce) {
  RunStore ours(path_);
  const pid_t pid = ::fork();
  if (pid == 0) {
    try {
      RunStore theirs(path_);
      for (int i = 0; i < 200; ++i) theirs.add(EventRow{double(i), "child", "{}"});
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  for (int i = 0; i < 200; ++i) ours.add(EventRow{double(i), "parent", "{}"});
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(RunReader(path_).events().size(), 400u);
}

TEST_F(RunStoreTest, ClearErrors) {
  EXPECT_THROW(RunReader(directory_ + "/none.sqlite"), Error);
  std::ofstream(directory_ + "/text.sqlite")
      << "this is not a database, but long enough to be looked at as one...";
  EXPECT_THROW(RunReader(directory_ + "/text.sqlite"), DataError);
  EXPECT_THROW(RunStore(directory_ + "/text.sqlite"), DataError);
  EXPECT_THROW(RunStore("/nonexistent/run.sqlite"), SystemError);
}

}  // namespace
}  // namespace surefit
