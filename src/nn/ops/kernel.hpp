// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/check.hpp"
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

// The same of a node whose threads prepare themselves.
template <typename Prepare, typename Function>
class PreparedKernel final : public Kernel {
 public:
  PreparedKernel(std::string implementation, Prepare prepare, Function function)
      : implementation_(std::move(implementation)),
        prepare_(std::move(prepare)),
        function_(std::move(function)) {}
  void prepare(const Task& task) const override { prepare_(task); }
  void run(const Task& task) const override { function_(task); }
  std::string implementation() const override { return implementation_; }

 private:
  std::string implementation_;
  Prepare prepare_;
  Function function_;
};

template <typename Prepare, typename Function>
std::unique_ptr<Kernel> make_prepared_kernel(std::string implementation, Prepare prepare,
                                             Function function) {
  return std::make_unique<PreparedKernel<Prepare, Function>>(
      std::move(implementation), std::move(prepare), std::move(function));
}

// For kernels that apply a gradient where it arises: part of a batch would count as the whole.
inline void check_whole_batch(const Task& task) {
  SUREFIT_CHECK(task.begin == 0 && task.end == task.step->samples, "samples {} to {} of {}",
                task.begin, task.end, task.step->samples);
}

// Floats from one sample of an operand to the next.
inline std::int64_t float_stride(const Operand& operand) {
  return static_cast<std::int64_t>(operand.sample_bytes / sizeof(float));
}

// Source and destination of the task's samples, for arguments that name them alike.
template <typename Args>
void set_operands(Args& args, const Operand& src, const Operand& dst, const Task& task) {
  args.src = src.at(task.begin);
  args.src_stride = float_stride(src);
  args.dst = dst.at(task.begin);
  args.dst_stride = float_stride(dst);
  args.sample_end = task.end - task.begin;
}

// Blocks of eight channels that a blocked picture has.
inline int channel_blocks(const ValueType& type) {
  return static_cast<int>(round_up(type.picture[2], kChannelBlock) / kChannelBlock);
}

// A row of numbers: one for the whole step, or one per sample.
inline ValueType vector_type(std::int64_t count, DType dtype = DType::kFloat32,
                             bool batched = false) {
  ValueType type;
  type.shape = Shape{count};
  type.dtype = dtype;
  type.batched = batched;
  return type;
}

}  // namespace surefit
