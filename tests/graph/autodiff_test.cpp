// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/fake_op.hpp"

namespace surefit {
namespace {

class AutodiffTest : public ::testing::Test {
 protected:
  AutodiffTest() : graph_(fake_structural_ops()) {
    x_ = graph_.add_input("x", batched_floats(8));
    seed_ = graph_.add_input("seed", batched_floats(8));
  }
  ValueId emit(const std::string& kind, std::vector<ValueId> inputs) {
    return graph_.add1(fake({.kind = kind, .outputs = {batched_floats(8)}}), std::move(inputs),
                       kind, Phase::kForward);
  }
  int count(std::string_view kind) const {
    int found = 0;
    for (const Node& node : graph_.nodes()) found += node.op->kind() == kind ? 1 : 0;
    return found;
  }
  Graph graph_;
  ValueId x_, seed_;
};

TEST_F(AutodiffTest, AChainRunsBackwards) {
  const ValueId a = emit("a", {x_}), b = emit("b", {a});
  const auto gradients = append_backward(graph_, {{b, seed_}}, {x_});
  ASSERT_EQ(graph_.nodes().size(), 4u);
  EXPECT_EQ(graph_.nodes()[2].op->kind(), "b_backward");
  EXPECT_EQ(graph_.nodes()[3].op->kind(), "a_backward");
  EXPECT_EQ(graph_.nodes()[2].inputs[0], seed_);
  EXPECT_EQ(gradients.at(x_), graph_.nodes()[3].outputs[0]);
  for (std::size_t i = 2; i < 4; ++i) EXPECT_EQ(graph_.nodes()[i].phase, Phase::kBackward);
}

TEST_F(AutodiffTest, ReadersOfOneValueAreSummed) {
  const ValueId a = emit("a", {x_});
  const ValueId b = emit("b", {a}), c = emit("c", {a}), d = emit("d", {a});
  const ValueId e = emit("e", {b, c, d});
  append_backward(graph_, {{e, seed_}}, {x_});
  EXPECT_EQ(count("accumulate"), 2);  // three readers
  EXPECT_EQ(count("a_backward"), 1);  // once, behind the sum
  const Node& last = graph_.nodes().back();
  EXPECT_EQ(last.op->kind(), "a_backward");
  EXPECT_EQ(graph_.node(graph_.value(last.inputs[0]).producer).op->kind(), "accumulate");
}

TEST_F(AutodiffTest, AValueReadTwiceByOneNodeIsSummed) {
  const ValueId a = emit("a", {x_});
  append_backward(graph_, {{emit("b", {a, a}), seed_}}, {x_});
  EXPECT_EQ(count("b_backward"), 2);
  EXPECT_EQ(count("accumulate"), 1);
}

TEST_F(AutodiffTest, NothingIsEmittedForWhatNobodyWants) {
  const ValueId w = graph_.add_persistent("w", floats(8), Category::kWeights);
  const ValueId frozen = graph_.add_persistent("frozen", floats(8), Category::kWeights);
  const ValueId before = emit("before", {x_, frozen});
  const ValueId a = emit("a", {before, w});
  emit("aside", {a});  // does not reach the loss
  const auto gradients = append_backward(graph_, {{emit("b", {a}), seed_}}, {w});
  EXPECT_EQ(count("before_backward"), 0);
  EXPECT_EQ(count("aside_backward"), 0);
  EXPECT_EQ(count("a_backward"), 1);  // for w, not for the value before it
  EXPECT_TRUE(gradients.contains(w));
  EXPECT_FALSE(gradients.contains(frozen));
  EXPECT_FALSE(gradients.contains(x_));
}

TEST_F(AutodiffTest, GradientsPassThroughViews) {
  const ValueId a = emit("a", {x_});
  ValueType square = batched_floats(8);
  square.shape = Shape{2, 4};
  const ValueId view = graph_.add_view(a, square, "view");
  const ValueId b = emit("b", {view});
  append_backward(graph_, {{b, seed_}}, {x_});
  const Node& last = graph_.nodes().back();
  EXPECT_EQ(last.op->kind(), "a_backward");
  // The gradient of the view, seen in the type of what it is a view of.
  EXPECT_EQ(graph_.value(last.inputs[0]).type.shape, (Shape{8}));
}

TEST_F(AutodiffTest, AnOpWithoutGradientIsNamed) {
  class Opaque final : public Op {
   public:
    std::string_view kind() const override { return "opaque"; }
    std::vector<ValueType> infer(std::span<const ValueType> in) const override { return {in[0]}; }
    OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
      return {};
    }
    std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                                 int) const override {
      return nullptr;
    }
  };
  const ValueId y = graph_.add1(std::make_shared<Opaque>(), {x_}, "layer", Phase::kForward);
  try {
    append_backward(graph_, {{y, seed_}}, {x_});
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("opaque"), std::string::npos);
  }
}

}  // namespace
}  // namespace surefit
