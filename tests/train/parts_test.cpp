// SPDX-License-Identifier: Apache-2.0
// Small gradients are summed in parts of the batch, so that threads read what they wrote.
#include "graph/op.hpp"
#include "train/planned_step.hpp"

namespace surefit {
namespace {

const FitOptions kExact{.convolutions = Convolutions::kExact};

Sequential two_convolutions(const Optimizer& optimizer = SGD{.learning_rate = 0.1}) {
  Sequential model({6, 6, 1}, {Conv2D{.filters = 9, .kernel_size = 3, .activation = "relu"},
                               Conv2D{.filters = 20, .kernel_size = 1}, ReLU{}, Flatten{},
                               Dense{.units = 3, .activation = "softmax"}});
  model.compile({.optimizer = optimizer, .loss = "sparse_categorical_crossentropy"});
  return model;
}

TEST(Parts, CoverTheBatchEachSampleOnce) {
  for (std::int64_t samples = 1; samples < 200; ++samples) {
    const BatchParts parts(samples, 16);
    EXPECT_GE(parts.count, 1);
    EXPECT_LE(parts.count, 16);
    EXPECT_EQ(parts.begin(0), 0);
    EXPECT_EQ(parts.begin(parts.count), samples);
    for (std::int64_t n = 0; n < samples; ++n) {
      const std::int64_t part = parts.of(n);
      EXPECT_LE(parts.begin(part), n);
      EXPECT_LT(n, parts.begin(part + 1));
    }
  }
}

// Groups that end within parts, more threads than parts, and a last batch smaller than the others.
TEST(Parts, SameBitsForAnyGroupAndThreads) {
  const auto step = [](const Optimizer& optimizer, std::int64_t samples, PlanOptions options) {
    return planned_step(two_convolutions(optimizer), {}, 0, samples, 44, options, kExact).state;
  };
  // The norm of all gradients needs them whole: no update is applied where the parts are added.
  for (const Optimizer& optimizer :
       {Optimizer(SGD{.learning_rate = 0.1}),
        Optimizer(SGD{.learning_rate = 0.1, .global_clipnorm = 0.1})}) {
    for (const std::int64_t samples : {44, 43, 6}) {
      const auto base = step(optimizer, samples, {});
      for (const std::int64_t group : {0, 1, 5, 16}) {
        for (const int threads : {1, 2, 3, 16}) {
          EXPECT_EQ(step(optimizer, samples, {.threads = threads, .group = group}), base)
              << samples << " samples, group " << group << ", threads " << threads;
        }
      }
    }
  }
}

// oneDNN's gradients are summed over the whole batch.
TEST(Parts, AddUpToTheGradientOfTheBatch) {
  const Program program = training_program(two_convolutions().impl(), kExact, {});
  const auto& nodes = program.graph().nodes();
  EXPECT_EQ(std::count_if(nodes.begin(), nodes.end(),
                          [](const Node& node) { return node.op->kind() == "update"; }),
            2)
      << "kernel and bias of the second convolution";
  const auto step = [](Convolutions convolutions) {
    return planned_step(two_convolutions(), {}, 0, 44, 44, {}, {.convolutions = convolutions})
        .parameters;
  };
  const auto ours = step(Convolutions::kExact), theirs = step(Convolutions::kOneDnn);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    for (std::size_t k = 0; k < ours[i].count(); ++k)
      EXPECT_NEAR(ours[i].values<float>()[k], theirs[i].values<float>()[k], 1e-6);
  }
}

}  // namespace
}  // namespace surefit
