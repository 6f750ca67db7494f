// SPDX-License-Identifier: Apache-2.0
#include "run/heartbeat.hpp"

#include <atomic>
#include <cmath>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "surefit/error.hpp"

namespace surefit {
namespace {

std::string scratch(const char* name) {
  return testing::TempDir() + name + std::to_string(::getpid());
}

TEST(Heartbeat, ReaderSeesWhatTheWriterBeat) {
  const std::string path = scratch("heartbeat");
  HeartbeatWriter writer(path);
  Heartbeat beat{.pid = 7, .phase = RunPhase::kTraining, .step = 42, .epoch = 3, .arena_bytes = 99};
  beat.loss = std::nan("");
  beat.set_layer("conv2d_1");
  writer.beat(beat);
  const auto read = read_heartbeat(path);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->pid, 7);
  EXPECT_EQ(read->step, 42u);
  EXPECT_EQ(read->layer_name(), "conv2d_1");
  EXPECT_EQ(phase_name(read->phase), "training");
  EXPECT_TRUE(std::isnan(read->loss));
  ::unlink(path.c_str());
}

TEST(Heartbeat, LongNamesAreCut) {
  Heartbeat beat;
  beat.set_layer(std::string(500, 'x'));
  EXPECT_EQ(beat.layer_name().size(), 63u);
}

TEST(Heartbeat, ReaderRefusesWhatIsNotAHeartbeat) {
  EXPECT_FALSE(read_heartbeat("/nonexistent/heartbeat").has_value());
  EXPECT_FALSE(read_heartbeat("/").has_value());
  const std::string path = scratch("garbage");
  const int fd = ::open(path.c_str(), O_CREAT | O_RDWR | O_TRUNC, 0644);
  EXPECT_FALSE(read_heartbeat(path).has_value());
  std::string garbage(4096, 'z');
  ASSERT_EQ(::write(fd, garbage.data(), garbage.size()), 4096);
  EXPECT_FALSE(read_heartbeat(path).has_value());
  ::close(fd);
  { HeartbeatWriter writer(path); }  // replaces what was there
  EXPECT_TRUE(read_heartbeat(path).has_value());
  ASSERT_EQ(::truncate(path.c_str(), 40), 0);
  EXPECT_FALSE(read_heartbeat(path).has_value());
  ::unlink(path.c_str());
  EXPECT_THROW(HeartbeatWriter("/nonexistent/heartbeat"), SystemError);
}

TEST(Heartbeat, NeverTornUnderAFastWriter) {
  const std::string path = scratch("torn");
  HeartbeatWriter writer(path);
  std::atomic<bool> stop{false};
  std::thread beating([&] {
    Heartbeat beat;
    for (std::uint64_t i = 1; !stop; ++i) {
      beat.step = beat.epoch = beat.arena_bytes = beat.budget_bytes = i;
      writer.beat(beat);
    }
  });
  int seen = 0;
  for (int i = 0; i < 20000; ++i) {
    if (const auto beat = read_heartbeat(path)) {
      ++seen;
      ASSERT_TRUE(beat->step == beat->epoch && beat->step == beat->budget_bytes);
    }
  }
  stop = true;
  beating.join();
  EXPECT_GT(seen, 100);
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace surefit
