// SPDX-License-Identifier: Apache-2.0
// SpatialDropout2D and GaussianNoise; Dropout has its own file.
#include <gtest/gtest.h>

#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

// The noise is the layer's own, so training has no reference: gradients are checked against its
// forward pass.
template <typename Spec>
LayerCase noisy(std::string name, Shape input, const Spec& spec) {
  return {
      .name = std::move(name),
      .layer = spec,
      .inputs = {std::move(input)},
      .inference = [](const std::vector<Array>& inputs, const Parameters&) { return inputs[0]; }};
}

std::vector<LayerCase> spatial_cases() {
  std::vector<LayerCase> list = {
      noisy("eight", {3, 2, 8}, SpatialDropout2D{}),
      noisy("thirteen", {2, 3, 13}, SpatialDropout2D{.rate = 0.25, .seed = 3}),
      noisy("nothing", {2, 2, 5}, SpatialDropout2D{.rate = 0})};
  list[0].invalid = {{"rate", 1.0}, {"rate", -0.5}, {"data_format", std::string("channels_first")}};
  return list;
}

std::vector<LayerCase> gaussian_cases() {
  std::vector<LayerCase> list = {
      noisy("picture", {3, 2, 8}, GaussianNoise{.stddev = 0.5}),
      noisy("thirteen", {3, 2, 13}, GaussianNoise{.stddev = 0.1, .seed = 4}),
      noisy("row", {7}, GaussianNoise{}), noisy("nothing", {5}, GaussianNoise{.stddev = 0})};
  list[0].invalid = {{"stddev", -1.0}, {"stddev", std::string("loud")}};
  return list;
}

const bool kAdded = add_conformance("SpatialDropout2D", spatial_cases) &&
                    add_conformance("GaussianNoise", gaussian_cases);

Tensor train(const Layer& layer, const Tensor& x) {
  const LayerRig rig(layer, {x.shape().drop_front()}, {});
  return rig
      .run({.inputs = {x}, .parameters = {}, .projection = x}, {.batch = x.shape()[0]},
           x.shape()[0])
      .output;
}

TEST(SpatialDropout, DropsWholeChannels) {
  const std::int64_t batch = 64, channels = 32;
  Tensor x({batch, 3, 3, channels});
  for (float& value : x.values<float>()) value = 2;
  const Tensor y = train(SpatialDropout2D{.rate = 0.25}, x);
  std::int64_t dropped = 0;
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const float first = y.at<float>({n, 0, 0, c});
      dropped += first == 0;
      for (std::int64_t i = 1; i < 9; ++i) ASSERT_EQ(y.at<float>({n, i / 3, i % 3, c}), first);
      if (first != 0) {
        ASSERT_NEAR(first, 2 / 0.75, 1e-6);
      }
    }
  }
  const double count = static_cast<double>(batch * channels);
  EXPECT_NEAR(static_cast<double>(dropped) / count, 0.25, 5 * std::sqrt(0.25 * 0.75 / count));
}

TEST(GaussianNoiseLayer, HasTheDeviationItPromises) {
  const Tensor x(Shape{16, 2000});
  const Tensor y = train(GaussianNoise{.stddev = 0.5}, x);
  double sum = 0, square = 0;
  for (const float value : y.values<float>()) {
    sum += static_cast<double>(value);
    square += static_cast<double>(value) * static_cast<double>(value);
  }
  const auto count = static_cast<double>(y.count());
  EXPECT_NEAR(sum / count, 0, 5 * 0.5 / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(square / count), 0.5, 5 * 0.5 / std::sqrt(2 * count));
}

}  // namespace
}  // namespace surefit::conformance
