// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/op.hpp"

namespace surefit {

// Softmax over the last axis of a plain value.
class SoftmaxOp final : public Op {
 public:
  std::string_view kind() const override { return "softmax"; }
  Layout preferred_layout(std::size_t, const ValueType&) const override { return Layout::kPlain; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {inputs[0]};
  }
  OpTraits traits(std::span<const ValueType> inputs,
                  std::span<const ValueType> outputs) const override;
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs,
                               std::span<const ValueType> outputs, int threads) const override;
  void gradient(GradientBuilder& builder) const override;
};

}  // namespace surefit
