// SPDX-License-Identifier: Apache-2.0
// What the machine gives at this moment: a yardstick for kernels.
#pragma once

#include <algorithm>
#include <ctime>
#include <functional>

namespace surefit::bench {

// Time this thread ran: others use the machine too.
inline double now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// Best of several rounds.
inline double seconds(const std::function<void()>& f, double budget = 0.15) {
  double best = 1e9;
  f();
  const double start = now();
  for (int i = 0; i < 200; ++i) {
    const double begin = now();
    f();
    best = std::min(best, now() - begin);
    if (now() - start > budget) break;
  }
  return best;
}

#if defined(__x86_64__)
// Bare multiply-adds: twelve independent chains of eight floats.
inline constexpr double kFmaChunkFlops = 20000.0 * 12 * 16;
__attribute__((target("avx2,fma"))) inline void fma_chunk() {
  asm volatile(
      "mov $20000, %%ecx\n"
      "1:\n"
      "vfmadd231ps %%ymm12, %%ymm13, %%ymm0\n"
      "vfmadd231ps %%ymm12, %%ymm13, %%ymm1\n"
      "vfmadd231ps %%ymm12, %%ymm13, %%ymm2\n"
      "vfmadd231ps %%ymm12, %%ymm13, %%ymm3\n"
      "vfmadd231ps %%ymm12, %%ymm13, %%ymm4\n"
      "vfmadd231ps %%ymm12, %%ymm13, %%ymm5\n"
      "vfmadd231ps %%ymm12, %%ymm13, %%ymm6\n"
      "vfmadd231ps %%ymm12, %%ymm13, %%ymm7\n"
      "vfmadd231ps %%ymm12, %%ymm13, %%ymm8\n"
      "vfmadd231ps %%ymm12, %%ymm13, %%ymm9\n"
      "vfmadd231ps %%ymm12, %%ymm13, %%ymm10\n"
      "vfmadd231ps %%ymm12, %%ymm13, %%ymm11\n"
      "dec %%ecx\n"
      "jnz 1b\n"
      :
      :
      : "ecx", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
        "xmm10", "xmm11", "xmm12", "xmm13");
}
inline double fma_loop() {
  return kFmaChunkFlops / seconds(fma_chunk, 0.005) * 1e-9;
}
inline bool can_run_fma_loop() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
inline constexpr double kFmaChunkFlops = 0.0;
inline void fma_chunk() {}
inline double fma_loop() {
  return 0.0;
}
inline bool can_run_fma_loop() {
  return false;
}
#endif

}  // namespace surefit::bench
