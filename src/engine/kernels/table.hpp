// SPDX-License-Identifier: Apache-2.0
// Every own kernel as a function pointer, filled once per instruction set. A kernel runs on one
// thread, allocates nothing, and takes its work as (samples, block): the sum order of every output
// element is fixed by shape alone, so any split of samples, blocks or threads gives the same bits.
#pragma once

#include <string_view>

#include "engine/kernels/batch_norm.hpp"
#include "engine/kernels/conv_bias.hpp"
#include "engine/kernels/conv_depthwise.hpp"
#include "engine/kernels/conv_direct.hpp"
#include "engine/kernels/conv_first.hpp"
#include "engine/kernels/conv_first_pool.hpp"
#include "engine/kernels/conv_winograd.hpp"
#include "engine/kernels/conv_winograd_few.hpp"
#include "engine/kernels/convert.hpp"
#include "engine/kernels/dense.hpp"
#include "engine/kernels/elementwise.hpp"
#include "engine/kernels/layout.hpp"
#include "engine/kernels/loss.hpp"
#include "engine/kernels/noise.hpp"
#include "engine/kernels/optimizers.hpp"
#include "engine/kernels/pool.hpp"

namespace surefit::kernels {

// Raised whenever a kernel adds in another order than before or rounds in another way: a run that
// was begun by an older build would end in other bits, and must not go on unnoticed.
inline constexpr int kSumOrders = 7;

struct KernelTable {
  const char* isa = nullptr;
  const char* bits = nullptr;  // the instruction set with whose kernels these agree bit by bit
  FirstConvKernels first;
  FirstPoolKernels first_pool;
  DenseKernels dense;
  LossKernels loss;
  PoolKernels pool;
  ElementwiseKernels elementwise;
  BatchNormKernels batch_norm;
  OptimizerKernels optimizers;
  WinogradKernels winograd;
  WinogradFewKernels winograd_few;
  DirectKernels direct;
  DepthwiseKernels depthwise;
  BiasKernels conv_bias;
  LayoutKernels layout;
  NoiseKernels noise;
  ConvertKernels convert;
};

// The table of the best instruction set this CPU has; SUREFIT_ISA in the environment (baseline,
// avx2) asks for no better one.
const KernelTable& table();

// The table of a named instruction set ("baseline", "avx2", "avx512"); null where this CPU or build
// has none.
const KernelTable* table_for(std::string_view isa);

}  // namespace surefit::kernels
