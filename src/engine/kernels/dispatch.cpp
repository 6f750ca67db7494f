// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string_view>

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
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}

}  // namespace

const KernelTable* table_for(std::string_view isa) {
  if (isa == "baseline") {
    static const KernelTable made = baseline::make_table();
    return &made;
  }
  if (isa == "avx2" && has_avx2()) {
    static const KernelTable made = avx2::make_table();
    return &made;
  }
  return nullptr;
}

const KernelTable& table() {
  static const KernelTable* const chosen = [] {
    const char* forced = std::getenv("SUREFIT_ISA");
    const bool plain = forced != nullptr && std::string_view(forced) == "baseline";
    const KernelTable* best = plain ? nullptr : table_for("avx2");
    return best != nullptr ? best : table_for("baseline");
  }();
  return *chosen;
}

}  // namespace surefit::kernels
