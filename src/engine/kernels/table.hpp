// SPDX-License-Identifier: Apache-2.0
// Every own kernel as a function pointer, filled once per instruction set. A kernel runs on one thread, allocates
// nothing, and takes its work as (samples, block): the sum order of every output element is fixed by shape alone, so
// any split of samples, blocks or threads gives the same bits.
#pragma once

namespace surefit::kernels {

struct KernelTable {
  const char* isa = nullptr;
};

// The table of the best instruction set this CPU has; SUREFIT_ISA=baseline in the environment forces the plain one.
const KernelTable& table();

}  // namespace surefit::kernels
