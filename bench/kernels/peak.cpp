// SPDX-License-Identifier: Apache-2.0
// GFLOP/s of bare multiply-adds on so many threads at once; 0 where the loop cannot run.
//
// Usage: bench_peak [threads]        the best moment of each thread
//        bench_peak threads seconds  on average over that time, whoever else uses the cores
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "fma_loop.hpp"

namespace {

double best_moment() {
  double best = 0;
  for (int round = 0; round < 20; ++round) best = std::max(best, surefit::bench::fma_loop());
  return best;
}

double average(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  double flops = 0, passed = 0;
  while (passed < seconds) {
    surefit::bench::fma_chunk();
    flops += surefit::bench::fma_chunk_flops();
    passed = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return flops / passed * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0;
  if (threads < 1 || !surefit::bench::can_run_fma_loop()) {
    std::puts("0");
    return threads < 1 ? 2 : 0;
  }
  std::vector<double> gflops(static_cast<std::size_t>(threads));
  std::vector<std::thread> running;
  for (double& own : gflops) {
    running.emplace_back([&own, seconds] { own = seconds > 0 ? average(seconds) : best_moment(); });
  }
  double sum = 0;
  for (std::thread& thread : running) thread.join();
  for (const double own : gflops) sum += own;
  std::printf("%.1f\n", sum);
}
