// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/table.hpp"

#define SUREFIT_STRING(x) #x
#define SUREFIT_NAME(x) SUREFIT_STRING(x)

namespace surefit::kernels::SUREFIT_ISA {

void fill_first(KernelTable& table);
void fill_first_pool(KernelTable& table);
void fill_dense(KernelTable& table);
void fill_loss(KernelTable& table);
void fill_pool(KernelTable& table);
void fill_elementwise(KernelTable& table);
void fill_batch_norm(KernelTable& table);
void fill_optimizers(KernelTable& table);
void fill_winograd(KernelTable& table);
void fill_direct(KernelTable& table);
void fill_depthwise(KernelTable& table);
void fill_conv_bias(KernelTable& table);
void fill_adaptive_optimizers(KernelTable& table);
void fill_layout(KernelTable& table);
void fill_noise(KernelTable& table);
void fill_convert(KernelTable& table);

KernelTable make_table() {
  KernelTable table;
  table.isa = SUREFIT_NAME(SUREFIT_ISA);
  table.bits = table.isa;
  fill_first(table);
  fill_first_pool(table);
  fill_dense(table);
  fill_loss(table);
  fill_pool(table);
  fill_elementwise(table);
  fill_batch_norm(table);
  fill_optimizers(table);
  fill_winograd(table);
  fill_direct(table);
  fill_depthwise(table);
  fill_conv_bias(table);
  fill_adaptive_optimizers(table);
  fill_layout(table);
  fill_noise(table);
  fill_convert(table);
  return table;
}

}  // namespace surefit::kernels::SUREFIT_ISA
