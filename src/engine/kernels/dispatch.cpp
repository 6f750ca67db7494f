// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string_view>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "engine/kernels/table.hpp"

namespace surefit::kernels {

namespace baseline {
KernelTable make_table();
}
namespace avx2 {
KernelTable make_table();
}
namespace avx512 {
void fill_winograd(KernelTable& table);
void fill_direct(KernelTable& table);
void fill_dense_update(KernelTable& table);
void fill_optimizers(KernelTable& table);
}  // namespace avx512

namespace {

bool has_avx2() {
#if defined(__x86_64__)
  // clang 14 knows no name for F16C.
  unsigned a = 0, b = 0, features = 0, d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &features, &d) != 0 && (features & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

bool has_avx512() {
#if defined(__x86_64__)
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

std::string_view best_isa() {
  const char* asked = std::getenv("SUREFIT_ISA");
  const std::string_view most = asked == nullptr ? "" : asked;
  if (most == "baseline" || !has_avx2()) return "baseline";
  return most == "avx2" || !has_avx512() ? "avx2" : "avx512";
}

// AVX2's kernels, and those that have more registers to use.
KernelTable make_avx512_table() {
  KernelTable table = avx2::make_table();
  table.isa = "avx512";
  avx512::fill_winograd(table);
  avx512::fill_direct(table);
  avx512::fill_dense_update(table);
  avx512::fill_optimizers(table);
  return table;
}

}  // namespace

const KernelTable& table() {
  static const KernelTable& chosen = *table_for(best_isa());
  return chosen;
}

const KernelTable* table_for(std::string_view isa) {
  if (isa == "baseline") {
    static const KernelTable plain = baseline::make_table();
    return &plain;
  }
  if (isa == "avx2" && has_avx2()) {
    static const KernelTable wide = avx2::make_table();
    return &wide;
  }
  if (isa == "avx512" && has_avx512()) {
    static const KernelTable widest = make_avx512_table();
    return &widest;
  }
  return nullptr;
}

}  // namespace surefit::kernels
