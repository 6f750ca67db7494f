// SPDX-License-Identifier: Apache-2.0
// GFLOP/s of bare multiply-adds on so many threads at once; 0 where the loop cannot run.
//
// Usage: bench_peak [threads]
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "fma_loop.hpp"

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  if (threads < 1 || !surefit::bench::can_run_fma_loop()) {
    std::puts("0");
    return threads < 1 ? 2 : 0;
  }
  std::vector<double> gflops(static_cast<std::size_t>(threads));
  std::vector<std::thread> running;
  for (double& own : gflops) {
    running.emplace_back([&own] {
      for (int round = 0; round < 20; ++round) own = std::max(own, surefit::bench::fma_loop());
    });
  }
  double sum = 0;
  for (std::thread& thread : running) thread.join();
  for (const double own : gflops) sum += own;
  std::printf("%.1f\n", sum);
}
