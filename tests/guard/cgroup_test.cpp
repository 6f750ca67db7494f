// SPDX-License-Identifier: Apache-2.0
// v1, v2, hybrid and container layouts, as trees of files.
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/memory_limit.hpp"
#include "guard/own_cgroup.hpp"
#include "guard/proc.hpp"

namespace surefit::guard {
namespace {

class CgroupTree : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "cgroup-XXXXXX";
    root_ = ::mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(CgroupTree, V2ChainWithTheTightestAncestor) {
  put("/cgroup.controllers", "cpuset cpu io memory pids\n");
  put("/pod/memory.max", "1073741824\n");
  put("/pod/memory.current", "900000000\n");
  put("/pod/memory.stat", "anon 500000000\nfile 300000000\nshmem 100000000\n");
  put("/pod/memory.events", "low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n");
  put("/pod/job/memory.max", "max\n");
  put("/pod/job/memory.current", "800000000\n");
  put("/pod/cpu.max", "150000 100000\n");
  put("/pod/cpu.stat", "usage_usec 1\nnr_periods 100\nnr_throttled 60\n");
  put("/pod/pids.max", "100\n");
  put("/pod/pids.current", "12\n");
  put("/pod/pids.events", "max 3\n");
  const CgroupChain chain({"0::/pod/job\n", "30 1 0:1 / " + root_ + " rw - cgroup2 cgroup2 rw\n"});
  EXPECT_TRUE(chain.memory_is_v2());
  const auto levels = chain.memory();
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_EQ(levels[0].limit, kNoLimit);
  EXPECT_EQ(levels[1].limit, 1073741824u);
  EXPECT_EQ(levels[1].used(), 700000000u);
  EXPECT_EQ(levels[1].oom, 2u);
  EXPECT_EQ(levels[1].failures, 7u);
  EXPECT_EQ(headroom(levels), 1073741824u - 700000000u);
  EXPECT_DOUBLE_EQ(chain.cpu()[1].quota_cores, 1.5);
  EXPECT_EQ(chain.pids()[0].refused, 3u);
}

TEST_F(CgroupTree, V1HybridWithContainerRoot) {
  put("/memory/memory.limit_in_bytes", "536870912\n");
  put("/memory/memory.usage_in_bytes", "100\n");
  put("/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  put("/unified/cgroup.controllers", "\n");
  // In a container the path of /proc/self/cgroup lies outside of what is mounted.
  const CgroupChain chain(
      {"4:memory:/docker/abc\n0::/\n", "31 1 0:1 /docker/abc " + root_ +
                                           "/memory rw - cgroup cgroup rw,memory\n32 1 0:2 / " +
                                           root_ + "/unified rw - cgroup2 cgroup2 rw\n"});
  EXPECT_FALSE(chain.memory_is_v2());
  const auto levels = chain.memory();
  ASSERT_EQ(levels.size(), 1u);
  EXPECT_EQ(levels[0].limit, 536870912u);
  EXPECT_EQ(levels[0].oom_kill, 4u);
}

TEST_F(CgroupTree, UsageIsReadAnew) {
  put("/cgroup.controllers", "memory\n");
  put("/pod/memory.max", "1000000\n");
  put("/pod/memory.current", "600000\n");
  put("/pod/memory.stat", "file 300000\nshmem 100000\nslab_reclaimable 50000\n");
  const CgroupChain chain({"0::/pod\n", "30 1 0:1 / " + root_ + " rw - cgroup2 cgroup2 rw\n"});
  MemoryLevel level = chain.memory().front();
  EXPECT_EQ(level.used(), 350000u);
  put("/pod/memory.current", "900000\n");
  put("/pod/memory.high", "800000\n");
  read_usage(level);
  EXPECT_EQ(level.used(), 650000u);
  EXPECT_EQ(level.high, 800000u);
}

TEST(MemoryLimit, TheTightestCountsAndExcessIsToBeGivenBack) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const auto less_margin = [](std::uint64_t bytes) { return bytes - bytes / 100 - 4 * kMiB; };
  MemoryFacts facts;
  facts.resident = 400 * kMiB;
  facts.machine_available = 1000 * kMiB;
  EXPECT_EQ(memory_limit_bytes(facts), less_margin(1400 * kMiB));
  MemoryLevel& parent = facts.levels.emplace_back();
  parent.path = "/pod";
  parent.limit = 900 * kMiB;
  parent.usage = 700 * kMiB;
  parent.reclaimable = 100 * kMiB;
  EXPECT_EQ(memory_limit_bytes(facts), less_margin(700 * kMiB));
  EXPECT_EQ(memory_limit(facts).source, "the control group /pod");
  parent.high = 500 * kMiB;  // 100 MiB above it already
  EXPECT_EQ(memory_limit_bytes(facts), less_margin(300 * kMiB));
  EXPECT_EQ(memory_limit(facts).bytes, memory_limit_bytes(facts));
}

TEST_F(CgroupTree, NoControllersAtAll) {
  const CgroupChain chain({"", ""});
  EXPECT_TRUE(chain.memory().empty());
  EXPECT_EQ(headroom(chain.memory()), kNoLimit);
  OwnCgroup group;
  EXPECT_FALSE(group.create(chain, "x", 1));
  EXPECT_EQ(group.why(), "no memory controller");
}

TEST(Proc, ReadsItself) {
  const auto stat = read_stat(::getpid());
  ASSERT_TRUE(stat.has_value());
  EXPECT_GT(stat->rss_bytes, 1u << 20);
  EXPECT_EQ(stat->parent, ::getppid());
  EXPECT_GT(count_fds(::getpid()), 2);
  EXPECT_FALSE(read_stat(4194305).has_value());
  EXPECT_EQ(number_after("VmRSS:\t 12 kB\nVmHWM:\t 15 kB\n", "VmHWM:"), 15u);
  EXPECT_EQ(number_after("oom 1\noom_kill 2\n", "oom "), 1u);
  EXPECT_FALSE(number_after("xoom 1\n", "oom ").has_value());
}

}  // namespace
}  // namespace surefit::guard
