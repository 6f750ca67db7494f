// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

struct Moments {
  std::vector<double> mean, variance;  // biased
};

Moments moments_of(const Array& x) {
  const auto channels = static_cast<std::size_t>(x.shape[x.shape.rank() - 1]);
  const double count = static_cast<double>(x.values.size() / channels);
  Moments m = {std::vector<double>(channels, 0), std::vector<double>(channels, 0)};
  for (std::size_t i = 0; i < x.values.size(); ++i) m.mean[i % channels] += x.values[i] / count;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const double deviation = x.values[i] - m.mean[i % channels];
    m.variance[i % channels] += deviation * deviation / count;
  }
  return m;
}

Array normalise(const BatchNormalization& spec, const Array& x, const Moments& m,
                const Parameters& parameters) {
  Array y = x;
  const std::size_t channels = m.mean.size();
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    const std::size_t c = i % channels;
    double value = (x.values[i] - m.mean[c]) / std::sqrt(m.variance[c] + spec.epsilon);
    if (spec.scale) value *= parameters.at("gamma").values[c];
    if (spec.center) value += parameters.at("beta").values[c];
    y.values[i] = value;
  }
  return y;
}

LayerCase norm(std::string name, Shape input, const BatchNormalization& spec) {
  const Reference by_batch = [spec](const std::vector<Array>& inputs,
                                    const Parameters& parameters) {
    return normalise(spec, inputs[0], moments_of(inputs[0]), parameters);
  };
  const Reference by_moving = [spec](const std::vector<Array>& inputs,
                                     const Parameters& parameters) {
    const Moments m = {parameters.at("moving_mean").values,
                       parameters.at("moving_variance").values};
    return normalise(spec, inputs[0], m, parameters);
  };
  return {.name = std::move(name),
          .layer = spec,
          .inputs = {std::move(input)},
          .reference = spec.trainable ? by_batch : by_moving,
          .inference = by_moving,
          // A channel's spread can be a tenth of its values: its inverse magnifies the rounding of
          // both passes.
          .gradient_tolerance = 2e-5,
          .positive = {"moving_variance"}};
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list = {
      norm("one_channel", {5, 4, 1}, {}),
      norm("rgb", {3, 7, 3}, {}),
      norm("five_no_scale", {4, 3, 5}, {.scale = false}),
      norm("eight_no_center", {4, 4, 8}, {.center = false}),
      norm("thirteen", {3, 5, 13}, {.momentum = 0.9, .epsilon = 1e-2}),
      norm("thirteen_bare", {3, 5, 13}, {.center = false, .scale = false}),
      norm("row", {13}, {}),
      norm("row_of_one", {1}, {}),
      norm("frozen", {3, 4, 5}, {.trainable = false}),
  };
  list[0].invalid = {{"epsilon", 0.0},
                     {"epsilon", -1.0},
                     {"momentum", 1.5},
                     {"momentum", -0.1},
                     {"axis", std::int64_t{1}},
                     {"beta_constraint", std::string("NotNeg")},
                     {"gamma_regularizer", std::string("L0")}};
  return list;
}

const bool kAdded = add_conformance("BatchNormalization", cases);

// Keras: moving = moving * momentum + batch * (1 - momentum), with the biased variance.
TEST(BatchNormalizationLayer, MovesItsStatistics) {
  const BatchNormalization spec = {.momentum = 0.75};
  const LayerRig rig(spec, {Shape{3, 4, 5}}, {});
  LayerRig::Feed feed;
  feed.inputs = {random_tensor({6, 3, 4, 5}, 1)};
  for (const Parameter& parameter : rig.parameters()) {
    feed.parameters.push_back(
        random_tensor(parameter.spec.shape, 2 + feed.parameters.size(), 0.5, 1.5));
  }
  feed.projection = random_tensor({6, 3, 4, 5}, 9);
  // The fifth and sixth sample of the feed do not take part.
  for (const std::int64_t samples : {std::int64_t{6}, std::int64_t{4}}) {
    const auto result = rig.run(feed, {.batch = 6, .group = 2}, samples);
    const Moments m = moments_of(Array::from(feed.inputs[0].slice(0, samples)));
    for (std::size_t i = 0; i < rig.parameters().size(); ++i) {
      const std::string& name = rig.parameters()[i].spec.name;
      if (name.substr(0, 6) != "moving") continue;
      const auto& batch = name == "moving_mean" ? m.mean : m.variance;
      for (std::size_t c = 0; c < 5; ++c) {
        const double before = static_cast<double>(feed.parameters[i].values<float>()[c]);
        EXPECT_NEAR(result.parameters[i].values<float>()[c], before * 0.75 + batch[c] * 0.25, 1e-6)
            << name << " " << c << ", " << samples << " samples";
      }
    }
  }
}

// Values far from zero: the difference of two large sums would lose the variance in float32.
TEST(BatchNormalizationLayer, SurvivesALargeMean) {
  const LayerRig rig(BatchNormalization{.center = false, .scale = false}, {Shape{4, 4, 8}}, {});
  LayerRig::Feed feed;
  feed.inputs = {random_tensor({4, 4, 4, 8}, 1, 999, 1001)};
  for (const Parameter& parameter : rig.parameters())
    feed.parameters.push_back(Tensor(parameter.spec.shape));
  feed.projection = random_tensor({4, 4, 4, 8}, 9);
  const auto result = rig.run(feed, {.batch = 4}, 4);
  const Array x = Array::from(feed.inputs[0]);
  const Array expected = normalise({.center = false, .scale = false}, x, moments_of(x), {});
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    // The inputs are 2^-14 apart, the deviation about 0.58.
    ASSERT_NEAR(result.output.values<float>()[i], expected.values[i], 2e-4) << i;
  }
}

// Flatten moves no memory, but behind it each feature is a channel of its own.
TEST(BatchNormalizationTest, NormalisesEachFeatureOfAFlattenedPicture) {
  const Symbol input = Input({4, 5, 3});
  const Symbol row = Layer(Flatten{})(Layer(Conv2D{.filters = 8})(input));
  const Network network({input}, {Layer(BatchNormalization{})(row)});
  EXPECT_EQ(network.parameters().back().spec.shape, Shape{160});
}

}  // namespace
}  // namespace surefit::conformance
