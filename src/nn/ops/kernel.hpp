// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "graph/op.hpp"

namespace surefit {

// A kernel that is a function of the task and whatever it captured.
template <typename Function>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(std::string implementation, Function function)
      : implementation_(std::move(implementation)), function_(std::move(function)) {}
  void run(const Task& task) const override { function_(task); }
  std::string implementation() const override { return implementation_; }

 private:
  std::string implementation_;
  Function function_;
};

template <typename Function>
std::unique_ptr<Kernel> make_kernel(std::string implementation, Function function) {
  return std::make_unique<FunctionKernel<Function>>(std::move(implementation), std::move(function));
}

// Floats from one sample of an operand to the next.
inline std::int64_t float_stride(const Operand& operand) {
  return static_cast<std::int64_t>(operand.sample_bytes / sizeof(float));
}

}  // namespace surefit
