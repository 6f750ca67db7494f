// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace surefit {
namespace {

TEST(ThreadPool, EveryIndexRunsOnce) {
  for (int threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    for (std::size_t count : {0, 1, 2, 3, 100, 1001}) {
      std::vector<std::atomic<int>> hits(count);
      pool.parallel_for(count, [&](std::size_t index, int thread) {
        ASSERT_LT(thread, threads);
        hits[index].fetch_add(1);
      });
      for (const auto& hit : hits) EXPECT_EQ(hit.load(), 1);
    }
  }
}

TEST(ThreadPool, ManyShortRoundsDoNotLoseWork) {
  ThreadPool pool(3);
  std::atomic<std::uint64_t> sum{0};
  for (int round = 0; round < 20000; ++round) {
    pool.parallel_for(3, [&](std::size_t index, int) { sum.fetch_add(index + 1); });
  }
  EXPECT_EQ(sum.load(), 20000u * 6u);
}

TEST(ThreadPool, RethrowsTheErrorOfTheLowestIndex) {
  ThreadPool pool(4);
  for (int round = 0; round < 50; ++round) {
    try {
      pool.parallel_for(64, [](std::size_t index, int) {
        if (index % 10 == 7) throw std::runtime_error(std::to_string(index));
      });
      FAIL() << "no exception arrived";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "7");
    }
  }
  int calls = 0;
  pool.parallel_for(1, [&](std::size_t, int) { ++calls; });
  EXPECT_EQ(calls, 1) << "the pool must work on after an error";
}

TEST(ThreadPool, StartHookRunsOnEveryThread) {
  std::atomic<int> starts{0};
  { ThreadPool pool(3, [&] { starts.fetch_add(1); }); }
  EXPECT_EQ(starts.load(), 3);
}

}  // namespace
}  // namespace surefit
