// SPDX-License-Identifier: Apache-2.0
// The forms in which convolutions do the same: with weights transformed a slice at a time (less
// memory), or where they are used (few samples). All give the same bits.
#include "plan/search.hpp"
#include "train/planned_step.hpp"

namespace surefit {
namespace {

const FitOptions kWinograd{.convolutions = Convolutions::kWinograd};

// Slices of Winograd's weights that are whole and ragged, with bias and relu and without.
Sequential wide_model(const Optimizer& optimizer = SGD{.learning_rate = 0.1}) {
  Sequential model(
      {6, 6, 1}, {Conv2D{.filters = 24, .kernel_size = 3, .padding = "same", .activation = "relu"},
                  Conv2D{.filters = 136, .kernel_size = 3, .padding = "same", .use_bias = false},
                  BatchNormalization{}, ReLU{},
                  Conv2D{.filters = 40, .kernel_size = 3, .padding = "same", .activation = "relu"},
                  Flatten{}, Dense{.units = 3, .activation = "softmax"}});
  model.compile({.optimizer = optimizer, .loss = "sparse_categorical_crossentropy"});
  return model;
}

int count(const Graph& graph, std::string_view kind) {
  return static_cast<int>(std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                        [&](const Node& node) { return node.op->kind() == kind; }));
}

TEST(Forms, FrugalGivesTheSameBitsForAnyGroupAndThreads) {
  const StepOutcome base = planned_step(wide_model(), {}, 0, 23, 24, {}, kWinograd);
  for (const std::int64_t group : {0, 1, 5, 8}) {
    for (const int threads : {1, 2, 3}) {
      PlanOptions options{.threads = threads, .group = group};
      const StepOutcome plain = planned_step(wide_model(), {}, 0, 23, 24, options, kWinograd);
      options.form = Form::kFrugal;
      const StepOutcome frugal = planned_step(wide_model(), {}, 0, 23, 24, options, kWinograd);
      EXPECT_EQ(frugal.losses, base.losses) << "group " << group << " threads " << threads;
      EXPECT_EQ(frugal.state, base.state) << "group " << group << " threads " << threads;
      EXPECT_LT(frugal.live_bytes, plain.live_bytes) << "group " << group << " threads " << threads;
    }
  }
}

// A batch of four, and the last of an epoch with three; an update that can be taken into the
// gradient's node, and one that waits for the norm of all gradients.
TEST(Forms, FewGivesTheSameBitsForAnyGroupAndThreads) {
  for (const Optimizer& optimizer : {Optimizer(SGD{.learning_rate = 0.1, .momentum = 0.9}),
                                     Optimizer(Adam{}), Optimizer(Adam{.global_clipnorm = 0.5})}) {
    for (const std::int64_t samples : {4, 3}) {
      const StepOutcome base =
          planned_step(wide_model(optimizer), {}, 0, samples, 4, {}, kWinograd);
      for (const std::int64_t group : {0, 1, 3}) {
        for (const int threads : {1, 2, 5}) {
          const PlanOptions options{.threads = threads, .group = group, .form = Form::kFew};
          const StepOutcome few =
              planned_step(wide_model(optimizer), {}, 0, samples, 4, options, kWinograd);
          EXPECT_EQ(few.losses, base.losses) << "group " << group << " threads " << threads;
          EXPECT_EQ(few.state, base.state) << "group " << group << " threads " << threads;
          EXPECT_LT(few.live_bytes, base.live_bytes) << "group " << group << " threads " << threads;
        }
      }
    }
  }
}

TEST(Forms, FewJoinsWeightsPassAndUpdate) {
  const Graph graph = training_program(wide_model(Adam{}).impl(), kWinograd, {}).graph();
  EXPECT_EQ(count(graph, "winograd_weights"), 4);
  EXPECT_EQ(count(graph, "winograd_weights_gradient"), 2);
  EXPECT_FALSE(graph.in_form(Form::kFew, 33)) << "many tiles";
  const std::optional<Graph> few = graph.in_form(Form::kFew, 4);
  ASSERT_TRUE(few);
  EXPECT_EQ(count(*few, "winograd_weights"), 0);
  EXPECT_EQ(count(*few, "winograd_weights_gradient"), 0);
  EXPECT_EQ(count(*few, "conv2d_update"), 2);
  for (const Node& node : few->nodes()) {
    if (node.source == kNone) continue;
    EXPECT_EQ(few->node(node.source).phase, Phase::kForward) << node.op->kind();
    EXPECT_EQ(few->node(node.source).layer, node.layer) << node.op->kind();
  }
  const Graph clipped =
      training_program(wide_model(Adam{.global_clipnorm = 1}).impl(), kWinograd, {}).graph();
  EXPECT_EQ(count(*clipped.in_form(Form::kFew, 4), "conv2d_update"), 0);
}

TEST(Forms, TheSearchTakesFewWhereItIsFaster) {
  const Sequential model = wide_model();
  const Program program = training_program(model.impl(), kWinograd, {});
  PlanSearch small(program.graph(), {.batch = 4, .threads = 2});
  EXPECT_EQ(small.finish(small.fastest()).form, Form::kFew);
  EXPECT_NO_THROW(verify(program.graph(), small.finish(small.fastest())));
  EXPECT_EQ(small.plan_within(small.fastest().live_bytes * 2)->plan.form, Form::kFew);
  PlanSearch large(program.graph(), {.batch = 33, .threads = 2});
  EXPECT_EQ(large.finish(large.fastest()).form, Form::kUsual);
}

TEST(Forms, TheSearchTurnsToFrugalWhereNothingElseFits) {
  const Sequential model = wide_model();
  const Program program = training_program(model.impl(), kWinograd, {});
  PlanSearch search(program.graph(), {.batch = 40, .threads = 2, .allow_spill = false});
  EXPECT_EQ(search.finish(search.fastest()).form, Form::kUsual);
  const std::size_t plain = search.form(Form::kUsual)->smallest().live_bytes,
                    floor = search.floor().live_bytes;
  ASSERT_LT(floor, plain);
  const auto found = search.plan_within(plain - 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->plan.form, Form::kFrugal);
  EXPECT_LT(found->plan.arena_bytes, plain);
  EXPECT_NO_THROW(verify(program.graph(), found->plan));
  EXPECT_EQ(search.finish(search.floor()).form, Form::kFrugal);
}

TEST(Forms, ExactConvolutionsHaveOne) {
  const Sequential model = wide_model();
  const FitOptions exact{.convolutions = Convolutions::kExact};
  for (const Form form : {Form::kFew, Form::kFrugal}) {
    EXPECT_TRUE(training_program(model.impl(), kWinograd, {}).graph().in_form(form, 4));
    EXPECT_FALSE(training_program(model.impl(), exact, {}).graph().in_form(form, 4));
  }
}

}  // namespace
}  // namespace surefit
