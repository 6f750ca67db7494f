// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <gtest/gtest.h>

#include "surefit/model.hpp"

#include "support/fake_op.hpp"
#include "train/model_impl.hpp"

namespace surefit {
namespace {

std::vector<std::string> kinds(const Graph& graph, Phase phase = Phase::kForward) {
  std::vector<std::string> result;
  for (const Node& node : graph.nodes()) {
    if (node.phase == phase) result.emplace_back(node.op->kind());
  }
  return result;
}

using Kinds = std::vector<std::string>;

Program train_program(const Model& model, const Loss& loss = "sparse_categorical_crossentropy") {
  const Compiled compiled = {"sgd", {{loss}}};
  return Program(model.impl().network, &compiled, Program::Purpose::kTrain);
}

struct FakeChain {
  Graph graph{fake_structural_ops()};
  ValueId x, a, b;
  FakeChain() {
    x = graph.add_input("x", batched_floats(8));
    a = graph.add1(fake({.kind = "a", .outputs = {batched_floats(8)}, .absorbs = "b"}), {x}, "a",
                   Phase::kForward);
    b = graph.add1(fake({.kind = "b", .outputs = {batched_floats(8)}}), {a}, "b", Phase::kForward);
    graph.keep(b);
  }
};

TEST(Fuse, JoinsAProducerWithItsOnlyReader) {
  FakeChain chain;
  fuse(chain.graph);
  EXPECT_EQ(kinds(chain.graph), (Kinds{"a+b"}));
  EXPECT_EQ(chain.graph.nodes()[0].inputs, std::vector<ValueId>{chain.x});
  EXPECT_EQ(chain.graph.nodes()[0].outputs, std::vector<ValueId>{chain.b});  // value ids stay
  chain.graph.check();
}

TEST(Fuse, ASecondReaderPreventsIt) {
  FakeChain chain;
  chain.graph.keep(chain.graph.add1(fake({.kind = "c", .outputs = {batched_floats(8)}}), {chain.a},
                                    "c", Phase::kForward));
  fuse(chain.graph);
  EXPECT_EQ(kinds(chain.graph), (Kinds{"a", "b", "c"}));
}

TEST(Fuse, AKeptValuePreventsIt) {
  FakeChain chain;
  chain.graph.keep(chain.graph.add_view(chain.a, batched_floats(8), "view"));
  fuse(chain.graph);
  EXPECT_EQ(kinds(chain.graph), (Kinds{"a", "b"}));
}

TEST(Fuse, ReadingTwicePreventsIt) {
  Graph graph(fake_structural_ops());
  const ValueId x = graph.add_input("x", batched_floats(8));
  const ValueId a = graph.add1(fake({.kind = "a", .outputs = {batched_floats(8)}, .absorbs = "b"}),
                               {x}, "a", Phase::kForward);
  graph.keep(graph.add1(fake({.kind = "b", .outputs = {batched_floats(8)}}), {a, a}, "b",
                        Phase::kForward));
  fuse(graph);
  EXPECT_EQ(kinds(graph), (Kinds{"a", "b"}));
}

// A backward node with two results: the gradient of w, which its update alone reads, and another
// one that is read before.
struct FakeUpdate {
  Graph graph{fake_structural_ops()};
  ValueId x, w;
  std::vector<ValueId> back;
  FakeUpdate() {
    x = graph.add_input("x", batched_floats(8));
    w = graph.add_persistent("w", floats(4), Category::kWeights);
    back = graph.add(fake({.kind = "back",
                           .outputs = {floats(4), batched_floats(8)},
                           .absorbs = "update",
                           .takes_over = {2}}),
                     {x, w}, "back", Phase::kBackward);
    graph.keep(graph.add1(fake({.kind = "next", .outputs = {batched_floats(8)}}), {back[1]}, "next",
                          Phase::kBackward));
  }
  void update() {
    graph.add(fake({.kind = "update", .mutated = {0}}), {w, back[0]}, "update", Phase::kUpdate);
    fuse_updates(graph);
    graph.check();
  }
};

TEST(Fuse, AnUpdateGoesToWhereTheOtherResultIsRead) {
  FakeUpdate step;
  step.update();
  EXPECT_EQ(kinds(step.graph, Phase::kBackward), (Kinds{"back+update", "next"}));
  EXPECT_EQ(kinds(step.graph, Phase::kUpdate), Kinds{});
  EXPECT_EQ(step.graph.nodes()[0].inputs, (std::vector<ValueId>{step.x, step.w, step.w}));
  EXPECT_EQ(step.graph.nodes()[0].outputs, std::vector<ValueId>{step.back[1]});
}

TEST(Fuse, AnUpdateStaysBehindWhoeverReadsTheOldWeights) {
  FakeUpdate step;
  step.graph.keep(step.graph.add1(fake({.kind = "late", .outputs = {batched_floats(8)}}),
                                  {step.x, step.w}, "late", Phase::kBackward));
  step.update();
  EXPECT_EQ(kinds(step.graph, Phase::kBackward), (Kinds{"back", "next", "late"}));
  EXPECT_EQ(kinds(step.graph, Phase::kUpdate), Kinds{"update"});
}

Symbol first_block(const Symbol& x) {
  return Layer(MaxPooling2D{})(
      Layer(Conv2D{.filters = 8, .kernel_size = 3, .activation = "relu"})(x));
}
Symbol head(const Symbol& x) {
  return Layer(Dense{.units = 3, .activation = "softmax"})(Layer(Flatten{})(x));
}

TEST(Fuse, AFirstBlockOnAPictureIsOneNode) {
  const Symbol x = Input({12, 12, 3});
  const Model model(x, head(first_block(x)));
  const Program program = train_program(model);
  EXPECT_EQ(kinds(program.graph()), (Kinds{"conv2d_relu_max_pool", "dense", "cross_entropy"}));
  EXPECT_EQ(kinds(program.graph(), Phase::kUpdate).size(), 4u);
}

TEST(Fuse, AWideFirstBlockKeepsItsPool) {
  const Symbol x = Input({12, 12, 9});
  const Model model(x, head(first_block(x)));
  EXPECT_EQ(kinds(train_program(model).graph()),
            (Kinds{"to_blocked", "conv2d", "relu_max_pool", "dense", "cross_entropy"}));
}

TEST(Fuse, ASecondReaderOfTheConvolutionKeepsItsPool) {
  const Symbol x = Input({12, 12, 3});
  const Symbol conv = Layer(Conv2D{.filters = 8, .kernel_size = 3, .activation = "relu"})(x);
  const Symbol pooled = Layer(MaxPooling2D{})(conv), average = Layer(AveragePooling2D{})(conv);
  const Model model(x, head(Layer(Add{})({pooled, average})));
  const Kinds got = kinds(train_program(model).graph());
  EXPECT_EQ(got[0], "conv2d_relu");
  EXPECT_NE(std::find(got.begin(), got.end(), "max_pool"), got.end());
}

TEST(Fuse, BatchNormalizationTakesTheResidualAndTheRelu) {
  const Symbol x = Input({8, 8, 8});
  const Symbol conv = Layer(Conv2D{.filters = 8, .kernel_size = 3, .padding = "same"})(x);
  const Symbol sum = Layer(Add{})({Layer(BatchNormalization{})(conv), x});
  const Model model(x, head(Layer(ReLU{})(sum)));
  const Kinds got = kinds(train_program(model).graph());
  EXPECT_NE(std::find(got.begin(), got.end(), "batch_norm_add_relu"), got.end());
  EXPECT_EQ(std::find(got.begin(), got.end(), "add"), got.end());
}

// A plain picture of few channels in the middle of a network: its gradient is needed, so the block
// must stay apart.
TEST(Fuse, AFirstBlockBehindParametersStillTrains) {
  const Symbol x = Input({12, 12, 3});
  const Symbol plain = Layer(Softmax{})(Layer(Conv2D{.filters = 4, .kernel_size = 1})(x));
  const Model model(x, head(first_block(plain)));
  EXPECT_NO_THROW(train_program(model));
}

TEST(Fuse, ConvolutionsTakeOverPaddingAndBatchNormalizationRelu6) {
  const Model model = Sequential(
      {9, 9, 3},
      {ZeroPadding2D{.padding = {0, 1, 0, 1}}, Conv2D{.filters = 8, .kernel_size = 3, .strides = 2},
       ZeroPadding2D{}, DepthwiseConv2D{.kernel_size = 3, .use_bias = false}, BatchNormalization{},
       ReLU{.max_value = 6.0}, Flatten{}, Dense{.units = 3}});
  const Program program = train_program(model, SparseCategoricalCrossentropy{.from_logits = true});
  EXPECT_EQ(kinds(program.graph()),
            (Kinds{"conv2d", "conv2d", "batch_norm_partials", "batch_norm_sum",
                   "batch_norm_statistics", "batch_norm_relu", "dense", "cross_entropy"}));
}

}  // namespace
}  // namespace surefit
