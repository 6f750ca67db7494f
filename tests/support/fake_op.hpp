// SPDX-License-Identifier: Apache-2.0
// Ops without arithmetic, for tests of the graph and the planner.
#pragma once

#include <fmt/format.h>
#include <memory>
#include <utility>
#include <vector>

#include "graph/autodiff.hpp"
#include "graph/graph.hpp"

namespace surefit {

class FakeOp final : public Op {
 public:
  struct Spec {
    std::string kind = "fake";
    std::vector<ValueType> outputs = {};
    OpTraits traits = {};
    std::vector<int> mutated = {};
    std::string absorbs = {};          // kind of the op it takes in
    std::vector<int> takes_over = {};  // what it mutates then; it has lost output 0 to it
  };
  explicit FakeOp(Spec spec) : spec_(std::move(spec)) {}
  std::string_view kind() const override { return spec_.kind; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return spec_.outputs; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    return spec_.traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return nullptr;
  }
  // One backward node per wanted input, reading the output's gradient.
  void gradient(GradientBuilder& builder) const override {
    for (std::size_t i = 0; i < builder.input_count(); ++i) {
      if (!builder.wants(i)) continue;
      Spec back;
      back.kind = fmt::format("{}_backward", spec_.kind);
      back.outputs = {builder.type(builder.input(i))};
      if (!back.outputs[0].batched) back.traits.role = BatchRole::kReduction;
      builder.set_input_gradient(
          i, builder.emit1(std::make_shared<FakeOp>(back), {builder.output_gradient(0)}));
    }
  }
  std::shared_ptr<const Op> absorb(const Op& consumer, std::size_t,
                                   std::span<const ValueType>) const override {
    if (spec_.absorbs.empty() || consumer.kind() != spec_.absorbs) return nullptr;
    Spec joint = spec_;
    joint.kind = fmt::format("{}+{}", spec_.kind, consumer.kind());
    joint.absorbs.clear();
    if (!spec_.takes_over.empty()) {
      joint.mutated = spec_.takes_over;
      joint.outputs.erase(joint.outputs.begin());
    }
    return std::make_shared<FakeOp>(joint);
  }
  std::vector<int> mutated_inputs() const override { return spec_.mutated; }

 private:
  Spec spec_;
};

inline std::shared_ptr<const Op> fake(FakeOp::Spec spec) {
  return std::make_shared<FakeOp>(std::move(spec));
}

inline ValueType batched_floats(std::int64_t count) {
  ValueType type;
  type.shape = Shape{count};
  return type;
}

inline ValueType floats(std::int64_t count) {
  ValueType type = batched_floats(count);
  type.batched = false;
  return type;
}

inline StructuralOps fake_structural_ops() {
  StructuralOps ops;
  ops.convert = [](Layout to) {
    ValueType type = batched_floats(8);
    type.layout = to;
    return fake({.kind = "convert", .outputs = {type}});
  };
  ops.accumulate = [] { return fake({.kind = "accumulate", .outputs = {batched_floats(8)}}); };
  return ops;
}

}  // namespace surefit
