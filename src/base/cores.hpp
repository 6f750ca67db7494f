// SPDX-License-Identifier: Apache-2.0
// How much of the machine's cores this process may use.
#pragma once

namespace surefit {

// Cores that its affinity allows; 1 where nobody knows.
int usable_cores();
// Cores' worth of time that its control groups allow, the least along the chain; 0 where they do
// not limit it.
double core_quota();
// Threads that can run at once: more than a quota are stopped in the middle of a step, and those
// that wait for them as well.
int default_threads();

}  // namespace surefit
