// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "engine/kernels/elementwise.hpp"
#include "graph/graph.hpp"

namespace surefit {

struct ActivationSpec {
  kernels::Activation kind = kernels::Activation::kLinear;
  float alpha = 0;
};

// Keras's name for an elementwise activation; nothing for softmax, which is not elementwise. Throws
// ConfigError on an unknown name.
std::optional<ActivationSpec> activation_by_name(const std::string& name);

class ActivationOp final : public Op {
 public:
  explicit ActivationOp(ActivationSpec spec) : spec_(spec) {}
  const ActivationSpec& spec() const { return spec_; }
  std::string_view kind() const override { return "activation"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {inputs[0]};
  }
  OpTraits traits(std::span<const ValueType> inputs,
                  std::span<const ValueType> outputs) const override;
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs,
                               std::span<const ValueType> outputs, int threads) const override;
  // Relu joins the max pooling behind it: relu of the maximum is the maximum of relus, with fewer
  // of them, and the larger picture need not be kept.
  std::shared_ptr<const Op> absorb(const Op& consumer, std::size_t consumer_input,
                                   std::span<const ValueType> inputs) const override;
  void gradient(GradientBuilder& builder) const override;

 private:
  ActivationSpec spec_;
};

// Gradient of an elementwise activation from the saved output (or input) and the gradient of the
// output.
std::shared_ptr<const Op> make_activation_backward(ActivationSpec spec);

// Sum of two or more inputs of one type.
class AddOp final : public Op {
 public:
  explicit AddOp(std::size_t terms) : terms_(terms) {}
  std::size_t terms() const { return terms_; }
  std::string_view kind() const override { return "add"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {inputs[0]};
  }
  Layout preferred_layout(std::size_t index, const ValueType& type) const override;
  OpTraits traits(std::span<const ValueType> inputs,
                  std::span<const ValueType> outputs) const override;
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs,
                               std::span<const ValueType> outputs, int threads) const override;
  void gradient(GradientBuilder& builder) const override;

 private:
  std::size_t terms_;
};

// The value whose sigmoid this is, or kNone: losses work on it.
ValueId before_sigmoid(const Graph& graph, ValueId value);

bool is_relu(const Op& op);
// kRelu or kRelu6 where the node is one of them: what batch normalization absorbs.
std::optional<kernels::Activation> relu_kind(const Op& op);

}  // namespace surefit
