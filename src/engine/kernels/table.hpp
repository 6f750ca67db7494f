// SPDX-License-Identifier: Apache-2.0
// Every own kernel as a function pointer, filled once per instruction set. A kernel runs on one
// thread, allocates nothing, and takes its work as (samples, block): the sum order of every output
// element is fixed by shape alone, so any split of samples, blocks or threads gives the same bits.
#pragma once

#include <string_view>

#include "engine/kernels/batch_norm.hpp"
#include "engine/kernels/convert.hpp"
#include "engine/kernels/dense.hpp"
#include "engine/kernels/elementwise.hpp"
#include "engine/kernels/layout.hpp"
#include "engine/kernels/loss.hpp"
#include "engine/kernels/noise.hpp"
#include "engine/kernels/optimizers.hpp"
#include "engine/kernels/pool.hpp"

namespace surefit::kernels {

struct KernelTable {
  const char* isa = nullptr;
  DenseKernels dense;
  LossKernels loss;
  PoolKernels pool;
  ElementwiseKernels elementwise;
  BatchNormKernels batch_norm;
  OptimizerKernels optimizers;
  LayoutKernels layout;
  NoiseKernels noise;
  ConvertKernels convert;
};

// The table of the best instruction set this CPU has; SUREFIT_ISA=baseline in the environment
// forces the plain one.
const KernelTable& table();

// The table of one instruction set ("baseline", "avx2"), or null if the CPU lacks it or the name is
// unknown.
const KernelTable* table_for(std::string_view isa);

}  // namespace surefit::kernels
