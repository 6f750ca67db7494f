// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

// No training reference: the mask is the layer's own. Gradients are checked against its forward
// pass, values below.
LayerCase dropout(std::string name, Shape input, const Dropout& spec) {
  return {
      .name = std::move(name),
      .layer = spec,
      .inputs = {std::move(input)},
      .inference = [](const std::vector<Array>& inputs, const Parameters&) { return inputs[0]; }};
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> list = {dropout("picture_of_one", {5, 3, 1}, {}),
                                 dropout("picture_of_five", {3, 3, 5}, {.rate = 0.25}),
                                 dropout("thirteen_seeded", {2, 3, 13}, {.rate = 0.75, .seed = 11}),
                                 dropout("row", {13}, {.rate = 0.1}),
                                 dropout("nothing", {8}, {.rate = 0})};
  list[0].invalid = {{"rate", 1.0},
                     {"rate", -0.1},
                     {"rate", std::string("half")},
                     {"seed", 0.5},
                     {"noise_shape", ConfigList{std::int64_t{1}}}};
  return list;
}

const bool kAdded = add_conformance("Dropout", cases);

Tensor drop(const Dropout& spec, const Tensor& x) {
  const LayerRig rig(spec, {x.shape().drop_front()}, {});
  return rig
      .run({.inputs = {x}, .parameters = {}, .projection = x}, {.batch = x.shape()[0]},
           x.shape()[0])
      .output;
}

TEST(DropoutLayer, KeepsTheShareItPromisesAndScalesIt) {
  const std::int64_t batch = 8, width = 5000;
  Tensor x({batch, width});
  for (float& value : x.values<float>()) value = 3;
  for (const double rate : {0.1, 0.5, 0.8}) {
    const Tensor y = drop({.rate = rate}, x);
    std::int64_t dropped = 0;
    for (const float value : y.values<float>()) {
      if (value == 0) {
        ++dropped;
      } else {
        ASSERT_NEAR(value, 3 / (1 - rate), 1e-5);
      }
    }
    const double count = static_cast<double>(batch * width);
    // Five standard deviations.
    EXPECT_NEAR(static_cast<double>(dropped) / count, rate,
                5 * std::sqrt(rate * (1 - rate) / count));
    // Each sample has a mask of its own.
    const Tensor first = y.slice(0, 1), second = y.slice(1, 2);
    EXPECT_FALSE(std::equal(first.raw().begin(), first.raw().end(), second.raw().begin()));
  }
}

TEST(DropoutLayer, SeedsChooseTheMask) {
  const Tensor x = random_tensor({2, 64}, 1, 1, 2);
  const auto bits = [](const Tensor& t) {
    return std::vector<std::byte>(t.raw().begin(), t.raw().end());
  };
  EXPECT_EQ(bits(drop({.seed = 5}, x)), bits(drop({.seed = 5}, x)));
  EXPECT_NE(bits(drop({.seed = 5}, x)), bits(drop({.seed = 6}, x)));
}

}  // namespace
}  // namespace surefit::conformance
