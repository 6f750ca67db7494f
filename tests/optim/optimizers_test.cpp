// SPDX-License-Identifier: Apache-2.0
// Optimizers against Keras's update rules in double.
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "base/philox.hpp"
#include "interop/npy.hpp"
#include "nn/ops/conv.hpp"
#include "nn/ops/dense.hpp"
#include "optim/optimizer.hpp"
#include "support/optimizer_rig.hpp"

namespace surefit {
namespace {

// More than one task's worth of elements, and not a multiple of any vector.
constexpr std::int64_t kCount = (1 << 15) + 13;
constexpr int kSteps = 6;

Tensor random_values(std::uint64_t seed) {
  const Philox stream(seed, Purpose::kTest, 0, 0, 0);
  Tensor tensor(Shape{kCount});
  for (std::size_t i = 0; i < tensor.count(); ++i)
    tensor.values<float>()[i] = stream.uniform(i) * 2 - 1;
  return tensor;
}

std::vector<Tensor> random_gradients() {
  std::vector<Tensor> gradients;
  for (std::uint64_t step = 0; step < kSteps; ++step)
    gradients.push_back(random_values(100 + step));
  return gradients;
}

// One element: (weight, gradient, step from 1, state) -> weight.
using Rule = std::function<double(double, double, int, std::vector<double>&)>;

// Weights move by at most about one learning rate a step: 1e-6 of a weight of 1 is the rounding of
// six steps.
void expect_follows(const Optimizer& optimizer, const Rule& rule, const OptimizerRun& run = {}) {
  const Tensor start = random_values(1);
  const std::vector<Tensor> gradients = random_gradients();
  const std::vector<Tensor> got = run_optimizer(optimizer, start, gradients, run);
  for (std::size_t i = 0; i < start.count(); i += i < 64 ? 1 : 997) {
    double weight = static_cast<double>(start.values<float>()[i]);
    std::vector<double> state(3, 0.0);
    for (std::size_t step = 0; step < kSteps; ++step) {
      const double gradient =
          static_cast<double>(gradients[step].values<float>()[i]) / run.loss_scale;
      weight = rule(weight, gradient, static_cast<int>(step) + 1, state);
      ASSERT_NEAR(got[step].values<float>()[i], weight, 1e-6)
          << "element " << i << " step " << step;
    }
  }
}

Rule sgd_rule(double lr, double momentum, bool nesterov) {
  return [=](double w, double g, int, std::vector<double>& state) {
    if (momentum == 0) return w - lr * g;
    double& v = state[0];
    v = momentum * v - lr * g;
    return nesterov ? w + momentum * v - lr * g : w + v;
  };
}

Rule adam_rule(const Adam& spec, double lr) {
  return [=](double w, double g, int step, std::vector<double>& state) {
    double &m = state[0], &v = state[1], &most = state[2];
    m += (g - m) * (1 - spec.beta_1);
    v += (g * g - v) * (1 - spec.beta_2);
    most = std::max(most, v);
    const double alpha =
        lr * std::sqrt(1 - std::pow(spec.beta_2, step)) / (1 - std::pow(spec.beta_1, step));
    return w - m * alpha / (std::sqrt(spec.amsgrad ? most : v) + spec.epsilon);
  };
}

TEST(SgdTest, FollowsItsRule) {
  expect_follows(SGD{}, sgd_rule(0.01, 0, false));
  expect_follows(SGD{.learning_rate = 0.1, .momentum = 0.9}, sgd_rule(0.1, 0.9, false));
  expect_follows(SGD{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true},
                 sgd_rule(0.1, 0.9, true));
}

TEST(AdamTest, FollowsItsRule) {
  expect_follows(Adam{}, adam_rule({}, 0.001));
  const Adam quick = {.learning_rate = 0.02, .beta_1 = 0.5, .beta_2 = 0.9, .epsilon = 1e-3};
  expect_follows(quick, adam_rule(quick, 0.02));
  const Adam amsgrad = {.learning_rate = 0.01, .beta_2 = 0.6, .amsgrad = true};
  expect_follows(amsgrad, adam_rule(amsgrad, 0.01));
}

TEST(AdaptiveTest, FollowTheirRules) {
  expect_follows(RMSprop{}, [](double w, double g, int, std::vector<double>& s) {
    s[0] = 0.9 * s[0] + 0.1 * g * g;
    return w - 0.001 * g / std::sqrt(s[0] + 1e-7);
  });
  expect_follows(RMSprop{.learning_rate = 0.01, .rho = 0.8, .momentum = 0.5, .centered = true},
                 [](double w, double g, int, std::vector<double>& s) {
                   s[0] = 0.8 * s[0] + 0.2 * g * g;
                   s[1] = 0.8 * s[1] + 0.2 * g;
                   s[2] = 0.5 * s[2] + 0.01 * g / std::sqrt(s[0] - s[1] * s[1] + 1e-7);
                   return w - s[2];
                 });
  expect_follows(Adagrad{.learning_rate = 0.1},
                 [](double w, double g, int step, std::vector<double>& s) {
                   if (step == 1) s[0] = 0.1;
                   s[0] += g * g;
                   return w - 0.1 * g / std::sqrt(s[0] + 1e-7);
                 });
  expect_follows(Adadelta{.learning_rate = 1}, [](double w, double g, int, std::vector<double>& s) {
    s[0] = 0.95 * s[0] + 0.05 * g * g;
    const double delta = -g * std::sqrt(s[1] + 1e-7) / std::sqrt(s[0] + 1e-7);
    s[1] = 0.95 * s[1] + 0.05 * delta * delta;
    return w + delta;
  });
  expect_follows(Lion{}, [](double w, double g, int, std::vector<double>& s) {
    const double c = 0.9 * s[0] + 0.1 * g;
    s[0] = 0.99 * s[0] + 0.01 * g;
    return w - 0.001 * (c > 0 ? 1 : c < 0 ? -1 : 0);
  });
  expect_follows(Nadam{}, [](double w, double g, int step, std::vector<double>& s) {
    const auto u = [](int t) { return 0.9 * (1 - 0.5 * std::pow(0.96, t)); };
    double product = 1;
    for (int t = 1; t <= step; ++t) product *= u(t);
    s[0] = 0.9 * s[0] + 0.1 * g;
    s[1] = 0.999 * s[1] + 0.001 * g * g;
    const double m =
        u(step + 1) * s[0] / (1 - product * u(step + 1)) + (1 - u(step)) * g / (1 - product);
    return w - 0.001 * m / (std::sqrt(s[1] / (1 - std::pow(0.999, step))) + 1e-7);
  });
}

TEST(OptimizerTest, WeightDecayIsDecoupled) {
  expect_follows(
      AdamW{}, [rule = adam_rule({}, 0.001)](double w, double g, int step, std::vector<double>& s) {
        return rule(w - w * 0.004 * 0.001, g, step, s);
      });
  expect_follows(SGD{.weight_decay = 0.5}, [](double w, double g, int, std::vector<double>&) {
    return w - w * 0.5 * 0.01 - 0.01 * g;
  });
}

// Every second step the mean takes the weights' place, and the next step starts from it.
TEST(OptimizerTest, MovingMeansReplaceTheWeightsAsOftenAsAsked) {
  expect_follows(
      SGD{.learning_rate = 0.1, .use_ema = true, .ema_momentum = 0.5, .ema_overwrite_frequency = 2},
      [](double w, double g, int step, std::vector<double>& s) {
        const double next = w - 0.1 * g;
        s[0] = step == 1 ? next : 0.5 * s[0] + 0.5 * next;
        return step % 2 == 0 ? s[0] : next;
      });
}

TEST(OptimizerTest, TheStepsLearningRateAndLossScaleCount) {
  expect_follows(SGD{.momentum = 0.5}, sgd_rule(0.03, 0.5, false),
                 {.learning_rate = 0.03, .loss_scale = 8});
  expect_follows(Adam{}, adam_rule({}, 0.003), {.learning_rate = 0.003, .loss_scale = 8});
}

TEST(OptimizerTest, TheSameBitsOnAnyThreads) {
  const Optimizer optimizers[] = {SGD{.momentum = 0.9, .nesterov = true}, Adam{.amsgrad = true},
                                  RMSprop{.momentum = 0.5, .centered = true},
                                  Lion{.use_ema = true}};
  for (const Optimizer& optimizer : optimizers) {
    const Tensor base = run_optimizer(optimizer, random_values(1), random_gradients()).back();
    for (int threads = 2; threads <= 4; ++threads) {
      const Tensor got =
          run_optimizer(optimizer, random_values(1), random_gradients(), {.threads = threads})
              .back();
      EXPECT_TRUE(std::equal(got.raw().begin(), got.raw().end(), base.raw().begin()))
          << threads << " threads";
    }
  }
}

TEST(OptimizerTest, ConfigurationsAreChecked) {
  EXPECT_THROW(Optimizer(SGD{.learning_rate = -1}), ConfigError);
  EXPECT_THROW(Optimizer(SGD{.learning_rate = std::nan("")}), ConfigError);
  EXPECT_THROW(Optimizer(SGD{.momentum = 1.5}), ConfigError);
  EXPECT_THROW(Optimizer(Adam{.beta_1 = 1}), ConfigError);
  EXPECT_THROW(Optimizer(Adam{.beta_2 = -0.1}), ConfigError);
  EXPECT_THROW(Optimizer(RMSprop{.rho = 1}), ConfigError);
  EXPECT_THROW(Optimizer(Adam{.weight_decay = -1.0}), ConfigError);
  EXPECT_THROW(Optimizer(Adam{.clipnorm = 0.0}), ConfigError);
  EXPECT_THROW(Optimizer(Adam{.clipnorm = 1.0, .clipvalue = 1.0}), ConfigError);
  EXPECT_THROW(Optimizer(Adam{.use_ema = true, .ema_momentum = 2}), ConfigError);
  EXPECT_THROW(Optimizer(Adam{.gradient_accumulation_steps = 2}), ConfigError);
  EXPECT_THROW(Optimizer(Adafactor{.beta_2_decay = 0.8}), ConfigError);
  EXPECT_THROW(Optimizer(Adafactor{.clip_threshold = 0}), ConfigError);
  EXPECT_THROW(Optimizer("adamm"), ConfigError);
  const Optimizer adam = Optimizer::from_config("Adam", {{"learning_rate", ConfigValue(0.5)}});
  EXPECT_EQ(Optimizer::from_config(adam.class_name(), adam.config()).config(), adam.config());
  try {
    Optimizer::from_config("sgd", {{"momentums", ConfigValue(0.5)}});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("momentums"), std::string::npos);
  }
}

struct FactoredCase {
  const char* name;
  Adafactor spec;
  std::shared_ptr<const Packing> packing;  // of the engine, for a parameter of this shape
};

std::vector<FactoredCase> factored_cases() {
  const auto conv = [](int kernel, int in, int out, int groups, ConvAlgorithm algorithm) {
    kernels::ConvShape shape;
    shape.kh = shape.kw = kernel;
    shape.ic = in;
    shape.oc = out;
    shape.groups = groups;
    return conv_kernel_packing(shape, algorithm);
  };
  const Adafactor plain = {}, own = {.learning_rate = 0.05,
                                     .beta_2_decay = -0.6,
                                     .epsilon_1 = 1e-3,
                                     .epsilon_2 = 0.2,
                                     .clip_threshold = 0.5,
                                     .weight_decay = 0.1};
  return {{"conv", plain, conv(3, 5, 13, 1, ConvAlgorithm::kDirect)},
          {"conv_own", own, conv(3, 5, 13, 1, ConvAlgorithm::kFirst)},
          {"depthwise", own, conv(3, 13, 13, 13, ConvAlgorithm::kDepthwise)},
          {"multiplied", own, conv(2, 5, 15, 5, ConvAlgorithm::kDirect)},
          {"dense", plain, dense_kernel_packing(ValueType::blocked(Shape{2, 3, 5}), 11)},
          {"vector", own, channel_packing(29)}};
}

// From the definition in Keras 3 by numpy in double (tools/goldens/generate.py). The slots are kept
// in float32, as in Keras.
TEST(OptimizerGoldens, AdafactorAgreesWithKerasDefinition) {
  const NpzFile file =
      NpzFile::open(Env::posix(), std::string(SUREFIT_TEST_DATA) + "/goldens/adafactor.npz");
  for (const FactoredCase& c : factored_cases()) {
    const std::string name = c.name;
    const Tensor start = file.read(name + "_start"), all = file.read(name + "_gradients"),
                 expected = file.read(name);
    std::vector<Tensor> gradients;
    for (std::int64_t step = 0; step < all.shape()[0]; ++step)
      gradients.push_back(all.slice(step, step + 1).reshape(start.shape()));
    for (const auto& packing : {std::shared_ptr<const Packing>(), c.packing}) {
      const std::vector<Tensor> got = run_optimizer(c.spec, start, gradients, {.packing = packing});
      double moved = 0;
      for (std::size_t step = 0; step < got.size(); ++step) {
        for (std::size_t i = 0; i < start.count(); ++i) {
          const float want = expected.values<float>()[step * start.count() + i];
          ASSERT_NEAR(got[step].values<float>()[i], want, 3e-7)
              << name << (packing ? " packed" : "") << " step " << step << " element " << i;
          moved = std::max(moved, std::abs(static_cast<double>(want - start.values<float>()[i])));
        }
      }
      EXPECT_GT(moved, 1e-3) << name;
    }
  }
}

TEST(AdafactorTest, SlotsAreTheFactors) {
  const Optimizer adafactor = Adafactor{.use_ema = true};
  const std::vector<SlotSpec> kernel = adafactor.impl().slots({3, 3, 5, 13});
  ASSERT_EQ(kernel.size(), 3U);
  EXPECT_EQ(*kernel[0].shape, (Shape{3, 3, 5}));
  EXPECT_EQ(*kernel[1].shape, (Shape{3, 3, 13}));
  EXPECT_EQ(kernel[2].name, kAverageSlot);
  EXPECT_EQ(adafactor.impl().slots({7}).size(), 2U);
}

// Several chunks per matrix, several matrices, lines that are and are not in place.
TEST(AdafactorTest, TheSameBitsOnAnyThreads) {
  const auto values = [](const Shape& shape, std::uint64_t seed) {
    const Philox stream(seed, Purpose::kTest, 0, 0, 0);
    Tensor tensor(shape);
    for (std::size_t i = 0; i < tensor.count(); ++i)
      tensor.values<float>()[i] = stream.uniform(i) * 2 - 1;
    return tensor;
  };
  const Shape shape = {2, 1, 700, 150};
  kernels::ConvShape conv;
  conv.kh = 2, conv.kw = 1, conv.ic = 700, conv.oc = 150;
  for (const auto& packing :
       {std::shared_ptr<const Packing>(), conv_kernel_packing(conv, ConvAlgorithm::kDirect)}) {
    std::vector<Tensor> results;
    for (int threads = 1; threads <= 4; ++threads) {
      results.push_back(run_optimizer(Adafactor{.weight_decay = 0.1, .use_ema = true},
                                      values(shape, 1), {values(shape, 2), values(shape, 3)},
                                      {.threads = threads, .packing = packing})
                            .back());
      const auto got = results.back().raw(), base = results.front().raw();
      EXPECT_TRUE(std::equal(got.begin(), got.end(), base.begin())) << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace surefit
