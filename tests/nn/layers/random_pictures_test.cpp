// SPDX-License-Identifier: Apache-2.0
// RandomFlip, RandomCrop, RandomTranslation and RandomRotation.
#include <gtest/gtest.h>

#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

template <typename Spec>
LayerCase random(std::string name, Shape input, const Spec& spec) {
  return {
      .name = std::move(name),
      .layer = spec,
      .inputs = {std::move(input)},
      .inference = [](const std::vector<Array>& inputs, const Parameters&) { return inputs[0]; }};
}

std::vector<LayerCase> flip_cases() {
  std::vector<LayerCase> list = {
      random("both", {3, 4, 3}, RandomFlip{}),
      random("horizontal", {3, 3, 8}, RandomFlip{.mode = "horizontal", .seed = 2})};
  list[0].invalid = {{"mode", std::string("diagonal")},
                     {"data_format", std::string("channels_first")}};
  return list;
}

std::vector<LayerCase> crop_cases() {
  LayerCase crop = random("middle", {5, 6, 3}, RandomCrop{.height = 3, .width = 4});
  crop.inference = [](const std::vector<Array>& inputs, const Parameters&) {
    Array y({inputs[0].shape[0], 3, 4, 3});
    for (std::int64_t n = 0; n < y.shape[0]; ++n) {
      for (std::int64_t i = 0; i < 3 * 4 * 3; ++i)
        y.at(n, i / 12, i / 3 % 4, i % 3) = inputs[0].at(n, 1 + i / 12, 1 + i / 3 % 4, i % 3);
    }
    return y;
  };
  crop.invalid = {{"height", std::int64_t{6}}, {"width", std::int64_t{0}}};
  return {crop, random("whole", {2, 3, 5}, RandomCrop{.height = 2, .width = 3})};
}

std::vector<LayerCase> translation_cases() {
  std::vector<LayerCase> list = {
      random("reflect", {5, 4, 3}, RandomTranslation{.height_factor = 0.3, .width_factor = 0.3}),
      random("constant", {5, 4, 2},
             RandomTranslation{
                 .height_factor = {-0.5, 0}, .fill_mode = "constant", .fill_value = 0.5}),
      random(
          "wrap_nearest", {4, 4, 8},
          RandomTranslation{.width_factor = 0.5, .fill_mode = "wrap", .interpolation = "nearest"})};
  list[0].invalid = {{"height_factor", 1.5},
                     {"width_factor", ConfigList{0.5, 0.1}},
                     {"fill_mode", std::string("mirror")},
                     {"interpolation", std::string("cubic")}};
  return list;
}

std::vector<LayerCase> rotation_cases() {
  std::vector<LayerCase> list = {
      random("eighth", {5, 5, 3}, RandomRotation{.factor = 0.125}),
      random("nearest", {4, 6, 5}, RandomRotation{.factor = {0.1, 0.3}, .fill_mode = "nearest"})};
  list[0].invalid = {{"factor", -2.0},
                     {"fill_mode", std::string("mirror")},
                     {"interpolation", std::string("cubic")}};
  return list;
}

const bool kAdded = add_conformance("RandomFlip", flip_cases) &&
                    add_conformance("RandomCrop", crop_cases) &&
                    add_conformance("RandomTranslation", translation_cases) &&
                    add_conformance("RandomRotation", rotation_cases);

std::vector<float> train(const Layer& layer, const Tensor& x) {
  const LayerRig rig(layer, {x.shape().drop_front()}, {});
  const Tensor y = rig.run({.inputs = {x},
                            .parameters = {},
                            .projection = Tensor(rig.inferred().prepend(x.shape()[0]))},
                           {.batch = x.shape()[0]}, x.shape()[0])
                       .output;
  return {y.values<float>().begin(), y.values<float>().end()};
}

// Sixty-four times the picture [[0 1 2] [3 4 5]].
Tensor counted() {
  Tensor x({64, 2, 3, 1});
  for (std::size_t i = 0; i < x.count(); ++i) x.values<float>()[i] = static_cast<float>(i % 6);
  return x;
}

TEST(RandomFlipLayer, MirrorsAboutHalfOfThePictures) {
  const std::vector<float> y = train(RandomFlip{.mode = "horizontal"}, counted());
  int flipped = 0;
  for (std::size_t n = 0; n < 64; ++n) {
    const std::vector<float> picture(y.begin() + static_cast<std::ptrdiff_t>(n * 6),
                                     y.begin() + static_cast<std::ptrdiff_t>(n * 6 + 6));
    const bool mirrored = picture == std::vector<float>{2, 1, 0, 5, 4, 3};
    ASSERT_TRUE(mirrored || picture == (std::vector<float>{0, 1, 2, 3, 4, 5}));
    flipped += mirrored;
  }
  EXPECT_GT(flipped, 12);
  EXPECT_LT(flipped, 52);
}

TEST(RandomTranslationLayer, MovesByWholePixelsExactly) {
  // A full half of two rows: the second row comes up, the first is reflected behind it.
  const std::vector<float> y = train(RandomTranslation{.height_factor = {-0.5, -0.5}}, counted());
  EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 6), (std::vector<float>{3, 4, 5, 3, 4, 5}));
}

TEST(RandomRotationLayer, TurnsAQuarterExactly) {
  Tensor x({1, 2, 2, 1});
  for (std::size_t i = 0; i < 4; ++i) x.values<float>()[i] = static_cast<float>(i);
  const std::vector<float> y =
      train(RandomRotation{.factor = {0.25, 0.25}, .interpolation = "nearest"}, x);
  EXPECT_EQ(y, (std::vector<float>{1, 3, 0, 2}));  // counter-clockwise
}

TEST(RandomPictures, EachSampleHasItsOwn) {
  for (const Layer& layer :
       {Layer(RandomTranslation{.width_factor = 0.5}), Layer(RandomRotation{.factor = 0.5})}) {
    const std::vector<float> y = train(layer, counted());
    EXPECT_NE(std::vector<float>(y.begin(), y.begin() + 6),
              std::vector<float>(y.begin() + 6, y.begin() + 12));
  }
}

}  // namespace
}  // namespace surefit::conformance
