// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/sample_op.hpp"

#include "nn/ops/kernel.hpp"

namespace surefit {
namespace {

class SampleOp final : public Op {
 public:
  explicit SampleOp(SampleOpParts parts) : parts_(std::move(parts)) {}
  std::string_view kind() const override { return parts_.kind; }
  Layout preferred_layout(std::size_t, const ValueType& type) const override {
    return parts_.layout && type.batched ? *parts_.layout : type.layout;
  }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return parts_.outputs; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType> outputs) const override {
    OpTraits traits;
    traits.in_place_input = parts_.in_place_input;
    traits.thread_scratch_bytes = parts_.thread_scratch_bytes;
    traits.flops_per_sample =
        static_cast<double>(outputs[0].stored_count()) * parts_.flops_per_element;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own", parts_.run);
  }
  void gradient(GradientBuilder& builder) const override {
    if (parts_.gradient) parts_.gradient(builder);
  }

 private:
  SampleOpParts parts_;
};

class ReductionOp final : public Op {
 public:
  explicit ReductionOp(ReductionOpParts parts) : parts_(std::move(parts)) {}
  std::string_view kind() const override { return parts_.kind; }
  Layout preferred_layout(std::size_t, const ValueType& type) const override {
    return parts_.layout && type.batched ? *parts_.layout : type.layout;
  }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return parts_.outputs; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.thread_scratch_bytes = parts_.thread_scratch_bytes;
    traits.flops_per_sample = parts_.flops_per_sample;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own", parts_.run);
  }

 private:
  ReductionOpParts parts_;
};

}  // namespace

std::shared_ptr<const Op> make_sample_op(SampleOpParts parts) {
  return std::make_shared<SampleOp>(std::move(parts));
}

std::shared_ptr<const Op> make_reduction_op(ReductionOpParts parts) {
  return std::make_shared<ReductionOp>(std::move(parts));
}

}  // namespace surefit
