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

std::string_view best_isa() {
  const char* forced = std::getenv("SUREFIT_ISA");
  const bool plain = forced != nullptr && std::string_view(forced) == "baseline";
  return !plain && has_avx2() ? "avx2" : "baseline";
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
  return nullptr;
}

}  // namespace surefit::kernels
