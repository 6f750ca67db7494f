// SPDX-License-Identifier: Apache-2.0
// Checks, pruning, views and layout conversions.
#include <gtest/gtest.h>

#include "nn/ops/structural.hpp"
#include "support/fake_op.hpp"

namespace surefit {
namespace {

std::shared_ptr<const Op> plain(const std::string& kind) {
  return fake({.kind = kind, .outputs = {batched_floats(8)}});
}
std::shared_ptr<const Op> update() {
  FakeOp::Spec spec = {.kind = "update", .mutated = {0}};
  spec.traits.role = BatchRole::kBatchFree;
  return fake(spec);
}

TEST(Prune, KeepsWhatIsKeptReadOrChangesMemory) {
  Graph graph(fake_structural_ops());
  const ValueId x = graph.add_input("x", batched_floats(8));
  const ValueId w = graph.add_persistent("w", floats(8), Category::kWeights);
  const ValueId a = graph.add1(plain("a"), {x}, "a", Phase::kForward);
  const ValueId b = graph.add1(plain("b"), {a}, "b", Phase::kForward);
  const ValueId unused = graph.add1(plain("unused"), {a}, "unused", Phase::kForward);
  graph.add1(plain("unused_too"), {unused}, "unused_too", Phase::kForward);
  const ValueId source =
      graph.add1(fake({.kind = "source", .outputs = {floats(8)}}), {x}, "source", Phase::kForward);
  graph.add(update(), {w, source}, "update", Phase::kUpdate);
  graph.keep(graph.add_view(b, batched_floats(8), "view"));  // keeping a view keeps its owner
  prune(graph);
  std::vector<std::string> kinds;
  for (const Node& node : graph.nodes()) kinds.emplace_back(node.op->kind());
  EXPECT_EQ(kinds, (std::vector<std::string>{"a", "b", "source", "update"}));
  for (const Node& node : graph.nodes()) {
    EXPECT_EQ(&graph.node(node.id), &node);
    for (const ValueId id : node.outputs) EXPECT_EQ(graph.value(id).producer, node.id);
  }
  EXPECT_EQ(graph.value(unused).producer, kNone);
  graph.check();
}

TEST(GraphCheck, FindsReadsBeforeWritesAndAfterUpdates) {
  Graph graph(fake_structural_ops());
  const ValueId x = graph.add_input("x", batched_floats(8));
  const ValueId w = graph.add_persistent("w", floats(8), Category::kWeights);
  const ValueId a = graph.add1(plain("a"), {x, w}, "a", Phase::kForward);
  graph.add1(plain("b"), {a}, "b", Phase::kForward);
  graph.add(update(), {w, a}, "update", Phase::kUpdate);
  EXPECT_NO_THROW(graph.check());
  std::vector<Node> nodes = graph.nodes();
  std::swap(nodes[0], nodes[1]);
  Graph swapped = graph;
  swapped.set_nodes(nodes);
  EXPECT_THROW(swapped.check(), InternalError);
  graph.add1(plain("late"), {w}, "late", Phase::kForward);
  EXPECT_THROW(graph.check(), InternalError);
}

TEST(Views, ShareMemoryAndMustFitIt) {
  Graph graph(fake_structural_ops());
  const ValueId x = graph.add_input("x", batched_floats(8));
  const ValueId view = graph.add_view(x, batched_floats(8), "view");
  const ValueId second = graph.add_view(view, batched_floats(8), "view of a view");
  EXPECT_EQ(graph.root(second), x);
  EXPECT_THROW(graph.add_view(x, batched_floats(7), "short"), InternalError);
  EXPECT_THROW(graph.add_view(x, floats(8), "unbatched"), InternalError);
  graph.add1(plain("reader"), {second}, "reader", Phase::kForward);
  EXPECT_EQ(graph.readers()[static_cast<std::size_t>(x)].size(), 1u);
}

TEST(Layouts, OneConversionServesAllReaders) {
  Graph graph(structural_ops());
  ValueType picture;
  picture.shape = Shape{3, 3, 5};
  const ValueId x = graph.add_input("x", picture);
  const ValueId a = graph.in_layout(x, Layout::kBlocked, "a", Phase::kForward);
  EXPECT_EQ(graph.in_layout(x, Layout::kBlocked, "b", Phase::kForward), a);
  EXPECT_EQ(graph.in_layout(x, Layout::kPlain, "b", Phase::kForward), x);
  EXPECT_EQ(graph.value(a).type.stored_count(), 72u);
}

// A conversion that nobody wanted is gone after pruning; asking again must make a new one.
TEST(Layouts, APrunedConversionIsNotHandedOut) {
  Graph graph(structural_ops());
  ValueType picture;
  picture.shape = Shape{3, 3, 5};
  const ValueId x = graph.add_input("x", picture);
  graph.in_layout(x, Layout::kBlocked, "unused", Phase::kForward);
  prune(graph);
  EXPECT_TRUE(graph.nodes().empty());
  graph.keep(graph.in_layout(x, Layout::kBlocked, "again", Phase::kForward));
  EXPECT_NO_THROW(graph.check());
}

}  // namespace
}  // namespace surefit
