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

KernelTable choose() {
  const char* forced = std::getenv("SUREFIT_ISA");
  const bool plain = forced != nullptr && std::string_view(forced) == "baseline";
#if defined(__x86_64__)
  if (!plain && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    return avx2::make_table();
  }
#else
  (void)plain;
#endif
  return baseline::make_table();
}

}  // namespace

const KernelTable& table() {
  static const KernelTable chosen = choose();
  return chosen;
}

}  // namespace surefit::kernels
