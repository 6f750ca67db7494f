// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>

#include "graph/op.hpp"

namespace surefit {

// Elements that one task updates; a fixed cut, though any cut would give the same bits.
inline constexpr std::int64_t kElementsPerTask = 1 << 15;

// An elementwise update (parameter, gradient, slots...): the function gets the task and its range
// of elements.
template <typename Function>
class UpdateKernel final : public Kernel {
 public:
  UpdateKernel(std::int64_t count, Function function)
      : count_(count), function_(std::move(function)) {}
  void run(const Task& task) const override {
    const std::int64_t begin = task.block * kElementsPerTask;
    function_(task, begin, std::min(count_, begin + kElementsPerTask) - begin);
  }
  std::string implementation() const override { return "own"; }

 private:
  std::int64_t count_;
  Function function_;
};

class UpdateOp : public Op {
 public:
  explicit UpdateOp(std::size_t slots) : slots_(slots) {}
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {}; }
  std::vector<int> mutated_inputs() const override {
    std::vector<int> positions = {0};
    for (std::size_t slot = 0; slot < slots_; ++slot)
      positions.push_back(static_cast<int>(slot) + 2);
    return positions;
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kBatchFree;
    const auto count = static_cast<std::int64_t>(inputs[0].stored_count());
    traits.blocks = static_cast<int>((count + kElementsPerTask - 1) / kElementsPerTask);
    traits.flops_per_step = static_cast<double>(count) * 10;
    return traits;
  }

 protected:
  template <typename Function>
  static std::unique_ptr<Kernel> make(std::span<const ValueType> inputs, Function function) {
    return std::make_unique<UpdateKernel<Function>>(
        static_cast<std::int64_t>(inputs[0].stored_count()), std::move(function));
  }

 private:
  std::size_t slots_;
};

}  // namespace surefit
