// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/bias_sum.hpp"
#include "engine/kernels/table.hpp"

namespace surefit::kernels::SUREFIT_ISA {

namespace {

void gradient(const BiasGradient& a, Samples samples, int block) {
  bias_gradient(a, samples, block);
}

}  // namespace

void fill_conv_bias(KernelTable& table) {
  table.conv_bias.gradient = gradient;
}

}  // namespace surefit::kernels::SUREFIT_ISA
