// SPDX-License-Identifier: Apache-2.0
#include "run/blackbox.hpp"

#include <csignal>
#include <cstdio>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "surefit/error.hpp"

#include "run/run_directory.hpp"

namespace surefit {
namespace {

std::string scratch(const char* name) {
  return testing::TempDir() + name + std::to_string(::getpid());
}

TEST(BlackBox, KeepsTheLastSamplesAndWords) {
  const std::string path = scratch("box");
  {
    BlackBox box(path);
    box.identify({.guard_pid = 11, .child_pid = 12});
    for (int i = 0; i < 700; ++i) box.sample({.time = static_cast<double>(i)});
    box.tail(std::string(100000, 'a'));
    box.tail("last words");
    box.note("forecast");
    box.end("goodbye");
  }
  const auto content = read_black_box(path);
  ASSERT_TRUE(content.has_value());
  EXPECT_TRUE(content->ended);
  EXPECT_EQ(content->ending, "goodbye");
  ASSERT_EQ(content->samples.size(), 600u);
  EXPECT_EQ(content->samples.front().time, 100);
  EXPECT_EQ(content->samples.back().time, 699);
  EXPECT_EQ(content->tail.size(), 65536u);
  EXPECT_TRUE(content->tail.ends_with("alast words"));
  EXPECT_EQ(content->notes, "forecast\n");
  ::unlink(path.c_str());
}

// As the janitor does: a child that has closed every file, but outlives the guard.
TEST(BlackBox, ChildrenDoNotHoldItsLock) {
  const std::string path = scratch("forked");
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  pid_t child = -1;
  {
    const BlackBox box(path);
    child = ::fork();
    if (child == 0) {
      for (int fd = 3; fd < 256; ++fd) {
        if (fd != ready[1]) ::close(fd);
      }
      static_cast<void>(!::write(ready[1], "r", 1));
      ::pause();
      ::_exit(0);
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    EXPECT_TRUE(black_box_is_live(path));
  }
  EXPECT_FALSE(black_box_is_live(path));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  ::unlink(path.c_str());
}

TEST(BlackBox, SurvivesKillNineOfItsWriter) {
  const std::string path = scratch("killed");
  const pid_t pid = ::fork();
  if (pid == 0) {
    BlackBox box(path);
    box.identify({.guard_pid = 11});
    box.sample({.time = 5});
    box.tail("dying");
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(pid, nullptr, 0);
  const auto content = read_black_box(path);
  ASSERT_TRUE(content.has_value());
  EXPECT_FALSE(content->ended);
  EXPECT_EQ(content->samples.size(), 1u);
  EXPECT_EQ(content->tail, "dying");
  EXPECT_FALSE(black_box_is_live(path));
  ::unlink(path.c_str());
}

TEST(BlackBox, TwoGuardsCannotShareOne) {
  const std::string path = scratch("shared");
  BlackBox box(path);
  EXPECT_TRUE(black_box_is_live(path));
  EXPECT_THROW(BlackBox{path}, SystemError);
  ::unlink(path.c_str());
}

TEST(BlackBox, ReaderSurvivesGarbage) {
  const std::string path = scratch("garbage");
  std::ofstream(path) << std::string(200000, '\xff');
  EXPECT_FALSE(read_black_box(path).has_value());
  std::ofstream(path) << "SBLKBOX1 short";
  EXPECT_FALSE(read_black_box(path).has_value());
  ::unlink(path.c_str());
}

TEST(RunDirectory, NamesAreSafeAndFresh) {
  const std::string parent = scratch("runs");
  const std::string path = fresh_run_directory(parent, "../my model");
  EXPECT_EQ(path.find("/run.._my_model-"), parent.size());
  EXPECT_TRUE(list_runs(parent).empty());
}

}  // namespace
}  // namespace surefit
