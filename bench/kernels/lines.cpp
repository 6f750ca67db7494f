// SPDX-License-Identifier: Apache-2.0
// What two cores pay for memory that both touch: microseconds for 112 KB, a line at a time,
// medians. The same memory is read and written in turns, as the activations of a step are.
//
// Usage: bench_lines
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <sched.h>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFloats = 28 * 1024, kLineFloats = 16;
constexpr int kRounds = 2000;

void stay_on(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof(one), &one);
}

// A round on both threads at once, `kRounds` times; the microseconds that each round took thread 0,
// for its own part or until both were done.
enum class Until { kOwnPart, kBothDone };
template <typename Work>
std::vector<double> in_rounds(const Work& work, Until until = Until::kOwnPart) {
  alignas(64) std::atomic<int> begun{0};
  alignas(64) std::atomic<int> done{0};
  std::thread other([&] {
    stay_on(1);
    for (int round = 1; round <= kRounds; ++round) {
      while (begun.load(std::memory_order_acquire) != round) continue;
      work(1, round);
      done.store(round, std::memory_order_release);
    }
  });
  stay_on(0);
  std::vector<double> times;
  for (int round = 1; round <= kRounds; ++round) {
    begun.store(round, std::memory_order_release);
    const Clock::time_point start = Clock::now();
    work(0, round);
    const Clock::time_point own = Clock::now();
    while (done.load(std::memory_order_acquire) != round) continue;
    const Clock::time_point end = until == Until::kOwnPart ? own : Clock::now();
    times.push_back(std::chrono::duration<double, std::micro>(end - start).count());
  }
  other.join();
  return times;
}

// Of every second round: the odd or the even ones.
double median(const std::vector<double>& times, std::size_t first) {
  std::vector<double> some;
  for (std::size_t i = first; i < times.size(); i += 2) some.push_back(times[i]);
  std::nth_element(some.begin(), some.begin() + static_cast<std::ptrdiff_t>(some.size() / 2),
                   some.end());
  return some[some.size() / 2];
}

struct alignas(4096) Floats {
  volatile float at[kFloats];
};
Floats halves[2];

void write(Floats& half) {
  for (std::size_t i = 0; i < kFloats; i += kLineFloats) half.at[i] = 1.0F;
}
void read(const Floats& half) {
  for (std::size_t i = 0; i < kFloats; i += kLineFloats) (void)half.at[i];
}
// Adds nothing, which takes a line out of the other core's cache.
void take(Floats& half) {
#if defined(__x86_64__) || defined(__i386__)
  for (std::size_t i = 0; i < kFloats; i += kLineFloats)
    asm volatile("addl $0, (%0)" : : "r"(&half.at[i]) : "memory", "cc");
#else
  write(half);
#endif
}

}  // namespace

int main() {
  if (std::thread::hardware_concurrency() < 2) {
    std::puts("needs two cores");
    return 0;
  }
  const auto trips = in_rounds([](int, int) {}, Until::kBothDone);
  std::printf("a word there and back %.2f us\n", median(trips, 0));
  // Rounds count from 1, so the first of `times` is an odd one.
  const auto own = in_rounds([](int thread, int) { write(halves[thread]); });
  std::printf("write what nobody else touches %.2f\n", median(own, 0));
  const auto swapped =
      in_rounds([](int thread, int round) { write(halves[(thread + round) % 2]); });
  std::printf("write what the other wrote %.2f\n", median(swapped, 0));
  const auto shared = in_rounds([](int thread, int round) {
    if (round % 2 == 1) return write(halves[thread]);
    read(halves[1 - thread]);
  });
  std::printf("read what the other wrote %.2f, write what the other then read %.2f\n",
              median(shared, 1), median(shared, 0));
  const auto taken = in_rounds([](int thread, int round) {
    if (round % 2 == 1) return write(halves[thread]);
    take(halves[1 - thread]);
  });
  std::printf("take what the other wrote %.2f, write what the other then took %.2f\n",
              median(taken, 1), median(taken, 0));
}
