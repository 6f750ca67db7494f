// SPDX-License-Identifier: Apache-2.0
#include "optim/gradient_ops.hpp"

#include <algorithm>
#include <functional>

namespace surefit {
namespace {

constexpr std::int64_t kElementsPerTask = 1 << 12;

// Works on ranges of elements, each by itself.
class RangesOp final : public Op {
 public:
  using Run = std::function<void(const Task&, std::int64_t begin, std::int64_t end)>;
  RangesOp(std::string_view kind, bool mutates, Run run)
      : kind_(kind), mutates_(mutates), run_(std::move(run)) {}
  std::string_view kind() const override { return kind_; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    if (mutates_) return {};
    return {inputs[0]};
  }
  std::vector<int> mutated_inputs() const override {
    return mutates_ ? std::vector<int>{0} : std::vector<int>{};
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    const auto count = static_cast<std::int64_t>(inputs[0].stored_count());
    OpTraits traits;
    traits.role = BatchRole::kBatchFree;
    traits.blocks = static_cast<int>(
        std::max<std::int64_t>(1, (count + kElementsPerTask - 1) / kElementsPerTask));
    traits.flops_per_step = static_cast<double>(count);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    return std::make_unique<RangesKernel>(static_cast<std::int64_t>(inputs[0].stored_count()),
                                          run_);
  }

 private:
  class RangesKernel final : public Kernel {
   public:
    RangesKernel(std::int64_t count, Run run) : count_(count), run_(std::move(run)) {}
    void run(const Task& task) const override {
      const std::int64_t begin = task.block * kElementsPerTask;
      run_(task, begin, std::min(count_, begin + kElementsPerTask));
    }
    std::string implementation() const override { return "own"; }

   private:
    std::int64_t count_;
    Run run_;
  };
  std::string_view kind_;  // a literal
  bool mutates_;
  Run run_;
};

void multiply(const Task& task, std::int64_t begin, std::int64_t end, float factor) {
  const float* from = task.inputs[0].at();
  float* to = task.outputs[0].at();
  for (std::int64_t i = begin; i < end; ++i) to[i] = from[i] * factor;
}

}  // namespace

std::shared_ptr<const Op> make_scale_gradient_op(double factor) {
  return std::make_shared<RangesOp>("scale_gradient", false,
                                    [factor = static_cast<float>(factor)](
                                        const Task& task, std::int64_t begin, std::int64_t end) {
                                      multiply(task, begin, end, factor);
                                    });
}

std::shared_ptr<const Op> make_multiply_gradient_op() {
  return std::make_shared<RangesOp>(
      "multiply_gradient", false, [](const Task& task, std::int64_t begin, std::int64_t end) {
        multiply(task, begin, end, static_cast<float>(*task.inputs[1].at<double>()));
      });
}

std::shared_ptr<const Op> make_add_to_sum_op(std::shared_ptr<const bool> fresh) {
  return std::make_shared<RangesOp>(
      "add_to_sum", true,
      [fresh = std::move(fresh)](const Task& task, std::int64_t begin, std::int64_t end) {
        float* sum = task.inputs[0].at();
        const float* gradient = task.inputs[1].at();
        for (std::int64_t i = begin; i < end; ++i)
          sum[i] = *fresh ? gradient[i] : sum[i] + gradient[i];
      });
}

}  // namespace surefit
