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
// Bare multiply-adds: twelve independent chains in the widest registers there are, which some CPUs
// multiply at twice the rate and others at the same.
#define SUREFIT_FMA(width, sum) "vfmadd231ps %%" width "12, %%" width "13, %%" width sum "\n"
#define SUREFIT_FMA_3(width, a, b, c) \
  SUREFIT_FMA(width, a) SUREFIT_FMA(width, b) SUREFIT_FMA(width, c)
#define SUREFIT_FMA_12(width)                                             \
  SUREFIT_FMA_3(width, "0", "1", "2")                                     \
  SUREFIT_FMA_3(width, "3", "4", "5") SUREFIT_FMA_3(width, "6", "7", "8") \
      SUREFIT_FMA_3(width, "9", "10", "11")
#define SUREFIT_FMA_LOOP(width)                                                               \
  asm volatile("mov $20000, %%ecx\n1:\n" SUREFIT_FMA_12(width) "dec %%ecx\njnz 1b\n"          \
               :                                                                              \
               :                                                                              \
               : "ecx", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", \
                 "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13")
inline bool wide_fma() {
  return __builtin_cpu_supports("avx512f");
}
inline double fma_chunk_flops() {
  return 20000.0 * 12 * (wide_fma() ? 32 : 16);
}
inline void fma_chunk() {
  if (wide_fma()) {
    SUREFIT_FMA_LOOP("zmm");
  } else {
    SUREFIT_FMA_LOOP("ymm");
  }
}
#undef SUREFIT_FMA_LOOP
#undef SUREFIT_FMA_12
#undef SUREFIT_FMA_3
#undef SUREFIT_FMA
inline double fma_loop() {
  return fma_chunk_flops() / seconds(fma_chunk, 0.005) * 1e-9;
}
inline bool can_run_fma_loop() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
inline double fma_chunk_flops() {
  return 0.0;
}
inline void fma_chunk() {}
inline double fma_loop() {
  return 0.0;
}
inline bool can_run_fma_loop() {
  return false;
}
#endif

}  // namespace surefit::bench
