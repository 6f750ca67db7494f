// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/cores.hpp"

namespace surefit {
namespace {

using Early = ThreadPool::Early;

TEST(ThreadPool, EveryIndexRunsOnce) {
  for (int threads = 1; threads <= 4; ++threads) {
    ThreadPool pool(threads);
    for (const Early early : {Early::kHelps, Early::kWaits}) {
      for (std::size_t count : {0, 1, 2, 3, 100, 1001}) {
        std::vector<std::atomic<int>> hits(count);
        const auto hit_once = [&](std::size_t index, int thread) {
          ASSERT_LT(thread, threads);
          hits[index].fetch_add(1);
        };
        pool.parallel_for(count, hit_once, early);
        for (const auto& hit : hits) EXPECT_EQ(hit.load(), 1);
      }
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

// Whether workers sleep when a round comes, or the caller when it ends: each task waits for the
// other, so both threads must take part.
TEST(ThreadPool, WakesWhoSleeps) {
  using std::chrono::milliseconds;
  ThreadPool pool(2);
  for (const milliseconds pause : {milliseconds(0), milliseconds(2)}) {
    for (const milliseconds work : {milliseconds(0), milliseconds(2)}) {
      for (int round = 0; round < 20; ++round) {
        std::this_thread::sleep_for(pause);
        std::atomic<int> begun{0};
        pool.parallel_for(2, [&](std::size_t index, int) {
          ++begun;
          while (begun < 2) std::this_thread::yield();
          if (index == 1) std::this_thread::sleep_for(work);
        });
        EXPECT_EQ(begun, 2);
      }
    }
  }
}

// Nobody waits for tasks that a thread which is held up has not begun, be it a worker or the
// caller.
TEST(ThreadPool, OthersTakeTheTasksOfWhoIsHeldUp) {
  constexpr std::size_t kCount = 12;
  for (int threads = 2; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for (const std::size_t held_up : {std::size_t{0}, kCount / 2}) {
      std::atomic<std::size_t> done{0};
      std::vector<int> taken_by(kCount);
      pool.parallel_for(kCount, [&](std::size_t index, int thread) {
        taken_by[index] = thread;
        while (index == held_up && done < kCount - 1) std::this_thread::yield();
        ++done;
      });
      EXPECT_NE(taken_by[held_up], taken_by[held_up + 1]) << threads << " threads";
    }
  }
}

// Where nobody helps, every thread has its share, however long one takes.
TEST(ThreadPool, SharesStayWhereNobodyHelps) {
  constexpr std::size_t kCount = 12;
  for (int threads = 2; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for (const Early before : {Early::kHelps, Early::kWaits}) {
      pool.parallel_for(
          kCount, [](std::size_t, int) {}, before);
      std::vector<int> taken_by(kCount);
      const auto slow_at_first = [&](std::size_t index, int thread) {
        if (index == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        taken_by[index] = thread;
      };
      pool.parallel_for(kCount, slow_at_first, Early::kWaits);
      const auto share = kCount / static_cast<std::size_t>(threads);
      for (std::size_t index = 0; index < kCount; ++index)
        EXPECT_EQ(taken_by[index], static_cast<int>(index / share));
    }
  }
}

// A task takes its data along to another core, so a thread that is merely slower keeps its own.
TEST(ThreadPool, TasksStayWithTheirThread) {
  if (usable_cores() < 2) GTEST_SKIP() << "nobody has patience with one core";
  using Clock = std::chrono::steady_clock;
  constexpr int kRounds = 50;
  ThreadPool pool(2);
  int least = std::numeric_limits<int>::max();  // of several turns: the system may hold up any
  for (int turn = 0; turn < 20; ++turn) {
    int moved = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::array<int, 8> taken_by{};
      pool.parallel_for(taken_by.size(), [&](std::size_t index, int thread) {
        taken_by[index] = thread;
        const Clock::time_point end = Clock::now() + std::chrono::microseconds(index < 4 ? 0 : 2);
        while (Clock::now() < end) continue;
      });
      for (std::size_t index = 0; index < taken_by.size(); ++index)
        moved += taken_by[index] != (index < 4 ? 0 : 1) ? 1 : 0;
    }
    least = std::min(least, moved);
  }
  EXPECT_LT(least, kRounds);  // one a round and more without patience
}

// On every thread, and with one thread too; what the caller does between is its own. Tasks wait for
// each other, so that no thread can take two.
TEST(ThreadPool, DenormalsAreZeroInTasksOnly) {
  volatile float smallest = std::numeric_limits<float>::min();
  const auto half = [&] { return smallest * 0.5f; };
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    std::vector<float> results(static_cast<std::size_t>(threads), 1.0f);
    std::atomic<int> begun{0};
    pool.parallel_for(results.size(), [&](std::size_t index, int) {
      ++begun;
      while (begun < threads) std::this_thread::yield();
      results[index] = half();
    });
    for (const float result : results) EXPECT_EQ(result, 0.0f) << threads << " threads";
    EXPECT_GT(half(), 0.0f);
  }
}

// The system may put two threads on one core for a while. One that waits must not keep the other
// from working until it gives up, which takes a hundred microseconds and more.
TEST(ThreadPool, ThreadsOnOneCoreDoNotWaitForEachOthersSpinning) {
  if (usable_cores() < 2) GTEST_SKIP() << "nobody spins with one core";
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  const auto stay_here = [core = ::sched_getcpu()] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  };
  using Clock = std::chrono::steady_clock;
  Clock::duration fastest = Clock::duration::max();
  {
    ThreadPool pool(2, stay_here);
    for (int turn = 0; turn < 50; ++turn) {
      const Clock::time_point begin = Clock::now();
      for (int round = 0; round < 20; ++round) pool.parallel_for(2, [](std::size_t, int) {});
      fastest = std::min(fastest, (Clock::now() - begin) / 20);
    }
  }
  EXPECT_LT(fastest, std::chrono::microseconds(50));
  ASSERT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(ThreadPool, RethrowsTheErrorOfTheLowestIndex) {
  ThreadPool pool(4);
  for (int round = 0; round < 50; ++round) {
    const auto throws = [](std::size_t index, int) {
      if (index % 10 == 7) throw std::runtime_error(std::to_string(index));
    };
    try {
      pool.parallel_for(64, throws, round % 2 == 0 ? Early::kHelps : Early::kWaits);
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
  {
    ThreadPool pool(3, [&] { starts.fetch_add(1); });
  }
  EXPECT_EQ(starts.load(), 3);
}

}  // namespace
}  // namespace surefit
