// SPDX-License-Identifier: Apache-2.0
// Parts of your own: a layer, a loss, a metric, an optimizer, a schedule, a callback and a data
// source, in a program that only links Surefit. Each is a plain struct; what it does to one sample
// (or one weight) is all that is written here. Batches, threads, memory plan, checkpoints, JSON and
// summaries come from the library.
#include <cmath>
#include <cstdio>

#include "surefit/model.hpp"
#include "surefit/step.hpp"

using namespace surefit;

// y = factor x + offset, for each channel.
struct ChannelScale {
  double initial = 1;
  std::string name = {};
  bool trainable = true;
  static constexpr std::string_view kClass = "ChannelScale";
  static void fields(auto& field) {
    field("initial", &ChannelScale::initial, "factor at the start");
  }

  Shape output_shape(std::span<const Shape> inputs) const {
    if (inputs.size() != 1 || inputs[0].rank() == 0) throw ConfigError("expected one picture");
    return inputs[0];
  }
  std::vector<LayerParameter> parameters(std::span<const Shape> inputs) const {
    const Shape channels{inputs[0].dims().back()};
    return {{"factor", channels, {"Constant", {{"value", ConfigValue(initial)}}}},
            {"offset", channels, {"Zeros"}}};
  }
  void forward(const LayerSample& s) const {
    const std::size_t channels = s.parameters[0].size();
    for (std::size_t i = 0; i < s.output.size(); ++i)
      s.output[i] = s.inputs[0][i] * s.parameters[0][i % channels] + s.parameters[1][i % channels];
  }
  void input_gradient(const LayerSample& s) const {
    const std::size_t channels = s.parameters[0].size();
    for (std::size_t i = 0; i < s.output_gradient.size(); ++i)
      s.input_gradients[0][i] = s.output_gradient[i] * s.parameters[0][i % channels];
  }
  void parameter_gradient(const LayerSample& s) const {
    const std::size_t channels = s.parameters[0].size();
    for (std::size_t i = 0; i < s.output_gradient.size(); ++i) {
      s.parameter_gradients[0][i % channels] += s.output_gradient[i] * s.inputs[0][i];
      s.parameter_gradients[1][i % channels] += s.output_gradient[i];
    }
  }
};

// log cosh(p - t), the mean over the elements.
struct LogCosh {
  static constexpr std::string_view kClass = "LogCosh";
  static constexpr std::string_view kName = "log_cosh";
  static void fields(auto&) {}
  double evaluate(std::span<const float> prediction, std::span<const float> target,
                  std::span<float> gradient) const {
    const double share = 1.0 / static_cast<double>(prediction.size());
    double sum = 0;
    for (std::size_t i = 0; i < prediction.size(); ++i) {
      const double error = static_cast<double>(prediction[i]) - static_cast<double>(target[i]);
      sum += std::log(std::cosh(error));
      if (!gradient.empty()) gradient[i] = static_cast<float>(std::tanh(error) * share);
    }
    return sum * share;
  }
};

// The share of samples whose prediction is off by less than `within`.
struct Close {
  double within = 0.1;
  std::string name = "close";
  static constexpr std::string_view kClass = "Close";
  static void fields(auto& field) { field("within", &Close::within); }
  double measure(std::span<const float> prediction, std::span<const float> target) const {
    return std::abs(static_cast<double>(prediction[0] - target[0])) < within ? 1 : 0;
  }
};

// A rate that is halved every `every` steps.
struct Halving {
  double start = 0.1;
  double every = 100;
  static constexpr std::string_view kClass = "Halving";
  static void fields(auto& field) {
    field("start", &Halving::start);
    field("every", &Halving::every);
  }
  double at(std::int64_t step) const {
    return start * std::pow(0.5, std::floor(static_cast<double>(step) / every));
  }
};

// Steps by the sign of the gradient's moving mean.
struct SignMomentum {
  LearningRate learning_rate = 0.01;
  double beta = 0.9;
  static constexpr std::string_view kClass = "SignMomentum";
  static void fields(auto& field) {
    field("learning_rate", &SignMomentum::learning_rate);
    field("beta", &SignMomentum::beta);
  }
  std::vector<std::string> slots() const { return {"mean"}; }
  void update(const OptimizerStep& step, std::span<float> weights, std::span<const float> gradient,
              std::span<const std::span<float>> slots) const {
    const auto keep = static_cast<float>(beta), rate = static_cast<float>(step.learning_rate);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      float& mean = slots[0][i];
      mean = keep * mean + (1 - keep) * gradient[i];
      weights[i] -= mean > 0 ? rate : mean < 0 ? -rate : 0;
    }
  }
};

// Remembers the best loss, also over a crash.
class BestLoss final : public Callback {
 public:
  void on_epoch_end(TrainState&, const Logs& logs) override {
    best_ = std::min(best_, *find_log(logs, "loss"));
  }
  std::string_view state_name() const override { return "best_loss"; }
  void visit_state(StateVisitor& visitor) override { visitor.field("best", best_); }
  double best() const { return best_; }

 private:
  double best_ = 1e30;
};

int main() {
  register_layer<ChannelScale>();
  register_loss<LogCosh>();
  register_metric<Close>();
  register_optimizer<SignMomentum>();
  register_schedule<Halving>();

  // Derivatives first: against differences of the values.
  const GradientCheck layer = check_gradients(ChannelScale{.initial = 0.5}, {{4, 4, 3}});
  const GradientCheck loss = check_gradients(LogCosh{}, {5});
  std::printf("layer: largest error %.1e (%s); loss: %.1e\n", layer.largest_error,
              layer.worst.c_str(), loss.largest_error);
  if (!layer.passed() || !loss.passed()) return 1;

  // A source of your own: any function of a sample's number. It can be shuffled, resumed and read
  // by several threads because the number is all it depends on.
  const Dataset samples = Dataset::range(256).map([](Sample& sample) {
    const auto seed = static_cast<double>(sample[0].values<std::int64_t>()[0]);
    sample.resize(2);
    Tensor picture({8, 8, 1});
    double sum = 0;
    for (std::size_t i = 0; i < picture.count(); ++i) {
      const double value = std::sin(seed * 12.9898 + static_cast<double>(i) * 0.37);
      picture.values<float>()[i] = static_cast<float>(value);
      sum += value;
    }
    sample[0].assign(picture);
    sample[1].assign(Tensor::of<float>({1}, std::vector{static_cast<float>(sum / 8)}));
  });

  Sequential model({8, 8, 1}, {Conv2D{.filters = 4, .kernel_size = 3, .activation = "relu"},
                               ChannelScale{.initial = 0.8}, Flatten{}, Dense{.units = 1}});
  model.compile({.optimizer = SignMomentum{.learning_rate = Halving{.start = 0.01, .every = 64}},
                 .loss = LogCosh{},
                 .metrics = {Close{.within = 0.5}}});
  std::printf("%s", model.summary().c_str());
  BestLoss best;
  const History history =
      model.fit(samples.shuffle(256).batch(16), {.epochs = 12, .callbacks = {&best}});
  const std::vector<double> losses = history.series("loss");
  std::printf("loss %.4f -> %.4f, close %.2f, best %.4f\n", losses.front(), losses.back(),
              history.series("close").back(), best.best());
  if (!(losses.back() < losses.front() * 0.5)) return 1;

  // Model files know the class, once it is registered.
  const Model copy = Model::from_json(model.to_json());
  return copy.to_json() == model.to_json() ? 0 : 1;
}
