// SPDX-License-Identifier: Apache-2.0
// The forms in which nodes do the same: convolutions with weights transformed a slice at a time
// (less memory) or where they are used (few samples), Dense layers that apply their gradient where
// it arises (few samples). All give the same bits.
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
          PlanOptions options{.threads = threads, .group = group};
          const StepOutcome plain =
              planned_step(wide_model(optimizer), {}, 0, samples, 4, options, kWinograd);
          options.form = Form::kFew;
          const StepOutcome few =
              planned_step(wide_model(optimizer), {}, 0, samples, 4, options, kWinograd);
          EXPECT_EQ(few.losses, base.losses) << "group " << group << " threads " << threads;
          EXPECT_EQ(few.state, base.state) << "group " << group << " threads " << threads;
          EXPECT_LT(few.live_bytes, plain.live_bytes)
              << "group " << group << " threads " << threads;
        }
      }
    }
  }
}

// Strided convolutions are direct: thirteen blocks of inputs in twelve parts, ten of outputs by
// six; a 1x1 kernel; and one too small.
TEST(Forms, FewAppliesTheGradientsOfDirectConvolutions) {
  const auto model = [](const Optimizer& optimizer) {
    Sequential made({6, 6, 1},
                    {Conv2D{.filters = 104, .kernel_size = 3, .padding = "same"},
                     Conv2D{.filters = 80, .kernel_size = 3, .strides = 2, .padding = "same"},
                     Conv2D{.filters = 832, .kernel_size = 1, .strides = 2},
                     Conv2D{.filters = 8, .kernel_size = 1, .strides = 2}, Flatten{},
                     Dense{.units = 3, .activation = "softmax"}});
    made.compile({.optimizer = optimizer, .loss = "sparse_categorical_crossentropy"});
    return made;
  };
  const auto updates = [&](const Optimizer& optimizer, std::int64_t batch) {
    const Graph graph = training_program(model(optimizer).impl(), kWinograd, {}).graph();
    const std::optional<Graph> few = graph.in_form(Form::kFew, batch);
    return few ? count(*few, "conv2d_update") : 0;
  };
  EXPECT_EQ(updates(Adam{}, 4), 2);
  EXPECT_EQ(updates(Adam{}, 40), 2);
  EXPECT_EQ(updates(Adam{}, 4000), 0) << "many samples";
  EXPECT_EQ(updates(Adam{.global_clipnorm = 1}, 4), 0) << "waits for all gradients";
  for (const Optimizer& optimizer :
       {Optimizer(SGD{.learning_rate = 0.1, .momentum = 0.9}), Optimizer(Adam{})}) {
    for (const std::int64_t samples : {4, 3}) {
      const StepOutcome base = planned_step(model(optimizer), {}, 0, samples, 4, {}, kWinograd);
      for (const int threads : {1, 2, 5}) {
        const PlanOptions options{.threads = threads, .form = Form::kFew};
        const StepOutcome few =
            planned_step(model(optimizer), {}, 0, samples, 4, options, kWinograd);
        EXPECT_EQ(few.losses, base.losses) << "threads " << threads;
        EXPECT_EQ(few.state, base.state) << "threads " << threads;
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
  for (const Form form : {Form::kFew, Form::kFrugal})
    EXPECT_TRUE(training_program(model.impl(), kWinograd, {}).graph().in_form(form, 4));
  const Graph graph = training_program(model.impl(), exact, {}).graph();
  EXPECT_FALSE(graph.in_form(Form::kFrugal, 4));
  EXPECT_FALSE(graph.in_form(Form::kFew, 17));
  EXPECT_EQ(count(*graph.in_form(Form::kFew, 4), "conv2d_update"), 0);
}

// Layers with many outputs and few, of odd sizes, some in several parts.
Sequential dense_model(const Optimizer& optimizer) {
  Sequential model(
      {6, 6, 1},
      {Conv2D{.filters = 17, .kernel_size = 2, .activation = "relu"}, Flatten{},
       Dense{.units = 67, .activation = "relu"}, Dense{.units = 90, .use_bias = false},
       Dense{.units = 11, .activation = "relu"}, Dense{.units = 3, .activation = "softmax"}});
  model.compile({.optimizer = optimizer, .loss = "sparse_categorical_crossentropy"});
  return model;
}

TEST(Forms, DenseAppliesItsGradientWithTheSameBits) {
  for (const Optimizer& optimizer :
       {Optimizer(SGD{.learning_rate = 0.1, .momentum = 0.9}), Optimizer(Adam{}),
        Optimizer(Adam{.amsgrad = true, .weight_decay = 0.01, .use_ema = true})}) {
    for (const std::int64_t samples : {7, 4}) {
      const StepOutcome base = planned_step(dense_model(optimizer), {}, 0, samples, 7, {});
      for (const std::int64_t group : {0, 1, 3}) {
        for (const int threads : {1, 2, 5}) {
          for (const bool in_place : {true, false}) {
            PlanOptions options{.threads = threads, .group = group, .allow_in_place = in_place};
            const StepOutcome usual =
                planned_step(dense_model(optimizer), {}, 0, samples, 7, options);
            options.form = Form::kFew;
            const StepOutcome few =
                planned_step(dense_model(optimizer), {}, 0, samples, 7, options);
            for (const StepOutcome* each : {&usual, &few}) {
              EXPECT_EQ(each->losses, base.losses) << "group " << group << " threads " << threads;
              EXPECT_EQ(each->state, base.state) << "group " << group << " threads " << threads;
            }
          }
        }
      }
    }
  }
}

TEST(Forms, DenseAppliesItsGradientWhereNobodyElseNeedsIt) {
  const auto updates = [](const Model& model, std::int64_t batch) {
    const Graph graph = training_program(model.impl(), {}, {}).graph();
    const std::optional<Graph> few = graph.in_form(Form::kFew, batch);
    return few ? count(*few, "dense_backward_update") : 0;
  };
  EXPECT_EQ(updates(dense_model(Adam{}), 16), 4);
  EXPECT_EQ(updates(dense_model(Adam{}), 17), 0);
  EXPECT_EQ(updates(dense_model(Adam{.global_clipnorm = 1}), 4), 0);
  EXPECT_EQ(updates(dense_model(Adam{.clipvalue = 1}), 4), 0);
  // A shared layer has the sum of two gradients, a penalty adds one.
  const Symbol x = Input({6, 6, 1});
  const Symbol flat = Layer(Flatten{})(Layer(Conv2D{.filters = 4, .kernel_size = 3})(x));
  const Symbol same = Layer(Dense{.units = 64})(flat);
  const Layer shared(Dense{.units = 64});
  Model twice(
      x, Layer(Dense{.units = 3, .kernel_regularizer = Object{"L2", {}}})(shared(shared(same))));
  twice.compile({.optimizer = Adam{}, .loss = SparseCategoricalCrossentropy{.from_logits = true}});
  EXPECT_EQ(updates(twice, 4), 1);
}

// The loss is looked at before the first change, though that is in the backward pass now.
TEST(Forms, ABadLossLeavesTheWeightsAsTheyWere) {
  Sequential model = dense_model(Adam{});
  const TinyData data;
  model.fit(data.x, data.y, {.batch_size = 4});  // memory now holds a loss that is fine
  Tensor kernel = model.parameter("conv2d/kernel");
  kernel.values<float>()[7] = std::nanf("");
  model.set_parameter("conv2d/kernel", kernel);
  const std::vector<std::string> before = bits_of(model);
  const Graph graph = training_program(model.impl(), {}, {}).graph();
  PlanSearch search(graph, {.batch = 4, .threads = 2});
  ASSERT_EQ(search.finish(search.fastest()).form, Form::kFew);
  EXPECT_THROW(model.fit(data.x, data.y, {.batch_size = 4}), NumericsError);
  EXPECT_TRUE(bits_of(model) == before);
}

}  // namespace
}  // namespace surefit
