// SPDX-License-Identifier: Apache-2.0
#include "base/cores.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/cgroup.hpp"

namespace surefit {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

double core_quota() {
  double quota = 0;
  for (const CpuLevel& level : CgroupChain(roots_of(::getpid())).cpu()) {
    if (level.quota_cores > 0 && (quota == 0 || level.quota_cores < quota))
      quota = level.quota_cores;
  }
  return quota;
}

int default_threads() {
  const double quota = core_quota();
  const int cores = usable_cores();
  return quota > 0 ? std::clamp(static_cast<int>(std::ceil(quota)), 1, cores) : cores;
}

}  // namespace surefit
