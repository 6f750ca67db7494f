// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/batch_parts.hpp"

#include <algorithm>
#include <array>

#include "base/check.hpp"
#include "engine/kernels/table.hpp"
#include "nn/ops/kernel.hpp"

namespace surefit {
namespace {

constexpr int kMostParts = 16;
constexpr std::size_t kMostInputs = 4;

// The sums of every part, one behind the other.
ValueType parts_type(const ValueType& sum) {
  return vector_type(static_cast<std::int64_t>(sum.stored_count()) * kMostParts);
}

// To the reduction a part is the whole batch.
class PartsKernel final : public Kernel {
 public:
  PartsKernel(std::unique_ptr<Kernel> whole, std::size_t sum_bytes)
      : whole_(std::move(whole)), sum_bytes_(sum_bytes) {}
  std::string implementation() const override { return whole_->implementation(); }
  void run(const Task& task) const override {
    const std::int64_t begin = BatchParts(task.step->samples, kMostParts).begin(task.part);
    std::array<Operand, kMostInputs> inputs;
    for (std::size_t i = 0; i < task.inputs.size(); ++i) {
      inputs[i] = task.inputs[i];
      inputs[i].first_sample -= begin;
    }
    Operand sum = task.outputs[0];
    sum.base += static_cast<std::size_t>(task.part) * sum_bytes_;
    Task part = task;
    part.begin -= begin;
    part.end -= begin;
    part.inputs = std::span(inputs).first(task.inputs.size());
    part.outputs = {&sum, 1};
    whole_->run(part);
  }

 private:
  std::unique_ptr<Kernel> whole_;
  std::size_t sum_bytes_;
};

class PartsOp final : public Op {
 public:
  explicit PartsOp(std::shared_ptr<const Op> whole) : whole_(std::move(whole)) {}
  std::string_view kind() const override { return whole_->kind(); }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {parts_type(sum_type(inputs))};
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    const ValueType sum = sum_type(inputs);
    OpTraits traits = whole_->traits(inputs, {&sum, 1});
    SUREFIT_CHECK(traits.sample_grain == 1 && inputs.size() <= kMostInputs, "{} in parts", kind());
    traits.parts = kMostParts;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int threads) const override {
    const ValueType sum = sum_type(inputs);
    return std::make_unique<PartsKernel>(whole_->bind(inputs, {&sum, 1}, threads),
                                         sum.stored_bytes());
  }

 private:
  ValueType sum_type(std::span<const ValueType> inputs) const { return whole_->infer(inputs)[0]; }
  std::shared_ptr<const Op> whole_;
};

// Sums of parts -> their sum, in order; with an update the parameter and its slots follow, and the
// sum is applied to them.
class AddPartsOp final : public Op {
 public:
  AddPartsOp(std::size_t count, std::shared_ptr<const ElementUpdate> update, std::size_t state)
      : count_(static_cast<std::int64_t>(count)), update_(std::move(update)) {
    for (std::size_t i = 0; i < state; ++i) positions_.push_back(static_cast<int>(i) + 1);
  }
  std::string_view kind() const override { return update_ ? "update" : "add_parts"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    if (update_) return {};
    return {vector_type(count_)};
  }
  std::vector<int> mutated_inputs() const override { return positions_; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kBatchFree;
    traits.blocks = static_cast<int>(div_up(count_, block()));
    traits.flops_per_step = static_cast<double>(count_ * kMostParts);
    if (update_) traits.thread_scratch_bytes = static_cast<std::size_t>(block()) * sizeof(float);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own", [total = count_, most = block(), update = update_](const Task& task) {
      const std::int64_t begin = task.block * most, count = std::min(most, total - begin);
      float* sum =
          update ? reinterpret_cast<float*>(task.thread_scratch) : task.outputs[0].at() + begin;
      const BatchParts parts(task.step->samples, kMostParts);
      const float* part = task.inputs[0].at() + begin;
      std::copy_n(part, count, sum);
      for (std::int64_t p = 1; p < parts.count; ++p)
        kernels::table().elementwise.accumulate(part + p * total, sum, count);
      if (update) update->run(*task.step, task.inputs.subspan(1), begin, count, sum);
    });
  }
  std::shared_ptr<const Op> absorb(const Op& consumer, std::size_t,
                                   std::span<const ValueType>) const override {
    auto update = update_ ? nullptr : consumer.element_update();
    if (update == nullptr) return nullptr;
    return std::make_shared<AddPartsOp>(static_cast<std::size_t>(count_), std::move(update),
                                        consumer.mutated_inputs().size());
  }

 private:
  // Floats of a task. An even number of tasks, so that two threads do the same.
  std::int64_t block() const {
    constexpr std::int64_t kMost = 1024;
    return round_up(div_up(count_, 2 * div_up(count_, 2 * kMost)), 16);
  }

  std::int64_t count_;
  std::shared_ptr<const ElementUpdate> update_;
  std::vector<int> positions_;
};

}  // namespace

ValueId emit_in_parts(GradientBuilder& builder, std::shared_ptr<const Op> reduction,
                      const std::vector<ValueId>& inputs) {
  constexpr std::size_t kLargestSum = 1 << 18;
  std::vector<ValueType> types;
  std::size_t sample_bytes = 0;
  for (const ValueId id : inputs) {
    types.push_back(builder.type(id));
    if (types.back().batched) sample_bytes += types.back().stored_bytes();
  }
  const ValueType sum = reduction->infer(types)[0];
  if (sum.stored_bytes() > std::min(kLargestSum, 2 * sample_bytes))
    return builder.emit1(std::move(reduction), inputs, Category::kGradients);
  const ValueId parts =
      builder.emit1(std::make_shared<PartsOp>(std::move(reduction)), inputs, Category::kGradients);
  return builder.emit1(std::make_shared<AddPartsOp>(sum.stored_count(), nullptr, 0), {parts},
                       Category::kGradients);
}

}  // namespace surefit
