// SPDX-License-Identifier: Apache-2.0
// Layers, losses, metrics, optimizers and schedules that are defined outside of the library.
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

#include "surefit/model.hpp"
#include "surefit/step.hpp"

#include "train/support.hpp"

namespace mine {

using surefit::LayerParameter;
using surefit::LayerSample;
using surefit::Shape;

// y = a + factor * b.
struct Blend {
  double initial = 1;
  bool wrong = false;  // a derivative that is off by a tenth
  std::string name = {};
  bool trainable = true;
  static constexpr std::string_view kClass = "Blend";
  static void fields(auto& field) {
    field("initial", &Blend::initial);
    field("wrong", &Blend::wrong);
  }
  Shape output_shape(std::span<const Shape> inputs) const {
    if (inputs.size() != 2 || inputs[0] != inputs[1])
      throw surefit::ConfigError("expected two inputs of one shape");
    return inputs[0];
  }
  std::vector<LayerParameter> parameters(std::span<const Shape>) const {
    return {{"factor", Shape{1}, {"Constant", {{"value", surefit::ConfigValue(initial)}}}}};
  }
  void forward(const LayerSample& s) const {
    for (std::size_t i = 0; i < s.output.size(); ++i)
      s.output[i] = s.inputs[0][i] + s.parameters[0][0] * s.inputs[1][i];
  }
  void input_gradient(const LayerSample& s) const {
    for (std::size_t i = 0; i < s.output_gradient.size(); ++i) {
      if (!s.input_gradients[0].empty()) s.input_gradients[0][i] = s.output_gradient[i];
      if (!s.input_gradients[1].empty())
        s.input_gradients[1][i] = s.output_gradient[i] * s.parameters[0][0] * (wrong ? 1.1f : 1.0f);
    }
  }
  void parameter_gradient(const LayerSample& s) const {
    float sum = 0;
    for (std::size_t i = 0; i < s.output_gradient.size(); ++i)
      sum += s.output_gradient[i] * s.inputs[1][i];
    s.parameter_gradients[0][0] += sum;
  }
};

struct Square {
  static constexpr std::string_view kClass = "MySquare";
  static constexpr std::string_view kName = "my_square";
  static void fields(auto&) {}
  double evaluate(std::span<const float> p, std::span<const float> t,
                  std::span<float> gradient) const {
    double sum = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double error = static_cast<double>(p[i]) - static_cast<double>(t[i]);
      sum += error * error / static_cast<double>(p.size());
      if (!gradient.empty())
        gradient[i] = static_cast<float>(2 * error / static_cast<double>(p.size()));
    }
    return sum;
  }
};

struct Largest {
  std::string name = "largest_error";
  static constexpr std::string_view kClass = "Largest";
  static void fields(auto&) {}
  std::size_t state_size() const { return 1; }
  void update(std::span<double> state, std::span<const float> p, std::span<const float> t) const {
    for (std::size_t i = 0; i < p.size(); ++i)
      state[0] = std::max(state[0], std::abs(static_cast<double>(p[i] - t[i])));
  }
  double result(std::span<const double> state) const { return state[0]; }
};

struct Descent {
  surefit::LearningRate learning_rate = 0.1;
  bool restless = false;
  static constexpr std::string_view kClass = "Descent";
  static void fields(auto& field) {
    field("learning_rate", &Descent::learning_rate);
    field("restless", &Descent::restless);
  }
  std::vector<std::string> slots() const { return {"velocity"}; }
  void update(const surefit::OptimizerStep& step, std::span<float> w, std::span<const float> g,
              std::span<const std::span<float>> slots) const {
    for (std::size_t i = 0; i < w.size(); ++i) {
      slots[0][i] = 0.9f * slots[0][i] - static_cast<float>(step.learning_rate) * g[i];
      w[i] += slots[0][i] + (restless ? 1.0f : 0.0f);
    }
  }
};

struct Linear {
  double start = 0.1;
  static constexpr std::string_view kClass = "LinearRate";
  static void fields(auto& field) { field("start", &Linear::start); }
  double at(std::int64_t step) const { return start / static_cast<double>(1 + step); }
};

const bool kRegistered = [] {
  surefit::register_layer<Blend>();
  surefit::register_loss<Square>();
  surefit::register_metric<Largest>();
  surefit::register_optimizer<Descent>();
  surefit::register_schedule<Linear>();
  return true;
}();

}  // namespace mine

namespace surefit {
namespace {

Model make_model() {
  const Symbol input = Input({6, 6, 3});
  const Symbol a = Layer(Conv2D{.filters = 10, .kernel_size = 3, .padding = "same"})(input);
  const Symbol b = Layer(Conv2D{.filters = 10, .kernel_size = 3, .padding = "same"})(a);
  const Symbol sum = Layer(mine::Blend{.initial = 1})({a, b});
  const Symbol output = Layer(Dense{.units = 2})(Layer(Flatten{})(Layer(ReLU{})(sum)));
  Model model(input, output);
  model.initialize(4);
  return model;
}

struct Fit {
  Model model;
  History history;
};

Fit train(const FitOptions& how = {}) {
  Model model = make_model();
  model.compile({.optimizer = mine::Descent{.learning_rate = 0.005},
                 .loss = mine::Square{},
                 .metrics = {mine::Largest{}}});
  FitOptions options = how;
  options.batch_size = 4;
  options.shuffle = false;
  if (options.epochs == 1) options.epochs = 3;
  History history = model.fit(waves({10, 6, 6, 3}, 0.7), waves({10, 2}, 1.3), options);
  return {std::move(model), std::move(history)};
}

TEST(CustomParts, Train) {
  const Fit own = train();
  const std::vector<double> losses = own.history.series("loss");
  EXPECT_LT(losses.back(), losses[0]);
  EXPECT_GT(own.history.series("largest_error")[0], 0);
  EXPECT_NE(own.model.parameter("blend/factor").values<float>()[0], 1.0f);
}

TEST(CustomParts, DoWhatBuiltInOnesDo) {
  // With a factor that stays 1, Blend is Add; Square is mse, Descent is SGD with momentum.
  const auto make = [](bool own) {
    const Symbol input = Input({6, 6, 3});
    const Symbol a = Layer(Conv2D{.filters = 10, .kernel_size = 3, .padding = "same"})(input);
    const Symbol b = Layer(Conv2D{.filters = 10, .kernel_size = 3, .padding = "same"})(a);
    const Symbol sum = own ? Layer(mine::Blend{.trainable = false})({a, b}) : Layer(Add{})({a, b});
    Model model(input, Layer(Dense{.units = 2})(Layer(Flatten{})(sum)));
    if (own) {
      model.compile({.optimizer = mine::Descent{.learning_rate = 0.005}, .loss = mine::Square{}});
    } else {
      model.compile({.optimizer = SGD{.learning_rate = 0.005, .momentum = 0.9}, .loss = "mse"});
    }
    return model;
  };
  Model own = make(true), builtin = make(false);
  for (const std::string& name : builtin.parameter_names())
    own.set_parameter(name, builtin.parameter(name));
  const Tensor before = builtin.parameter("conv2d/kernel");
  for (Model* model : {&own, &builtin}) {
    model->fit(waves({10, 6, 6, 3}, 0.7), waves({10, 2}, 1.3),
               {.batch_size = 4, .epochs = 3, .shuffle = false});
  }
  float change = 0;
  for (const std::string& name : builtin.parameter_names()) {
    const Tensor left = own.parameter(name), right = builtin.parameter(name);
    for (std::size_t i = 0; i < left.count(); ++i)
      EXPECT_NEAR(left.values<float>()[i], right.values<float>()[i], 1e-6) << name;
  }
  const Tensor after = builtin.parameter("conv2d/kernel");
  for (std::size_t i = 0; i < after.count(); ++i)
    change = std::max(change, std::abs(after.values<float>()[i] - before.values<float>()[i]));
  EXPECT_GT(change, 1e-3f);
}

TEST(CustomParts, SameBitsForAnyThreadsAndGroups) {
  const Fit expected = train({.threads = 1});
  expect_same_bits(expected.model, train({.threads = 3}).model);
  expect_same_bits(expected.model, train({.threads = 2, .group = 1}).model);
}

TEST(CustomParts, GoThroughModelFiles) {
  const Model model = make_model();
  const std::string json = model.to_json();
  EXPECT_NE(json.find("Custom>Blend"), std::string::npos);
  const Model copy = Model::from_json(json);
  EXPECT_EQ(copy.to_json(), json);
  EXPECT_NE(model.summary().find("Blend"), std::string::npos);
}

TEST(CustomParts, AreKnownByName) {
  EXPECT_EQ(Loss("my_square").name(), "my_square");
  EXPECT_EQ(Metric("largest_error").name(), "largest_error");
  const Optimizer optimizer = Optimizer::from_config(
      "Descent",
      {{"learning_rate", ConfigMap{{"class_name", std::string("LinearRate")},
                                   {"config", ConfigMap{{"start", ConfigValue(0.5)}}}}}});
  EXPECT_EQ(optimizer.class_name(), "Descent");
  EXPECT_THROW(register_layer<mine::Blend>(), ConfigError);  // once is enough
  EXPECT_THROW(register_layer<Conv2D>(), ConfigError);
}

TEST(CustomParts, SurviveACrash) {
  const std::filesystem::path run = std::filesystem::path(testing::TempDir()) / "custom_parts_run";
  std::filesystem::remove_all(run);
  const Fit whole = train({.epochs = 4});
  Model model = make_model();
  model.compile({.optimizer = mine::Descent{.learning_rate = 0.005},
                 .loss = mine::Square{},
                 .metrics = {mine::Largest{}}});
  const Tensor x = waves({10, 6, 6, 3}, 0.7), y = waves({10, 2}, 1.3);
  FitOptions options = {.batch_size = 4,
                        .epochs = 4,
                        .shuffle = false,
                        .max_steps = 5,
                        .run = run.string(),
                        .checkpoint_every = "1steps"};
  model.fit(x, y, options);
  Model resumed = make_model();
  resumed.compile({.optimizer = mine::Descent{.learning_rate = 0.005},
                   .loss = mine::Square{},
                   .metrics = {mine::Largest{}}});
  options.max_steps = 0;
  options.resume = true;
  const History history = resumed.fit(x, y, options);
  expect_same_bits(whole.model, resumed);
  EXPECT_EQ(history.epochs, whole.history.epochs);
}

TEST(CustomParts, AnUpdateThatMovesZerosIsRefused) {
  EXPECT_THROW(Optimizer(mine::Descent{.restless = true}), ConfigError);
}

TEST(CheckGradients, FindsAWrongDerivative) {
  const std::vector<Shape> shapes = {{3, 3, 2}, {3, 3, 2}};
  const GradientCheck good = check_gradients(mine::Blend{.initial = 0.7}, shapes);
  EXPECT_LT(good.largest_error, 1e-3);
  const GradientCheck bad = check_gradients(mine::Blend{.initial = 0.7, .wrong = true}, shapes);
  EXPECT_GT(bad.largest_error, 0.05);
  EXPECT_EQ(bad.worst, "input 1");
  EXPECT_FALSE(bad.passed());
}

TEST(CheckGradients, AgreesWithTheLibrarysOwnParts) {
  EXPECT_TRUE(check_gradients(Dense{.units = 5, .activation = "tanh"}, {{7}}).passed());
  EXPECT_TRUE(
      check_gradients(Conv2D{.filters = 3, .kernel_size = 3, .padding = "same"}, {{5, 5, 2}})
          .passed());
  EXPECT_TRUE(check_gradients(mine::Square{}, {4}).passed());
  EXPECT_TRUE(check_gradients("huber", {4}).passed());
}

}  // namespace
}  // namespace surefit
