// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <set>

#include "surefit/image.hpp"

#include "data/support.hpp"

namespace surefit::data {
namespace {

// One picture of h x w x 1 with pixel values 0, 1, 2, ..., as often as wanted.
Dataset counting(std::int64_t copies, std::int64_t h, std::int64_t w, DType dtype = DType::kUInt8) {
  Tensor x(Shape{copies, h, w, 1}, dtype);
  for (std::size_t i = 0; i < x.count(); ++i) {
    const std::size_t value = i % static_cast<std::size_t>(h * w);
    if (dtype == DType::kUInt8) {
      x.values<std::uint8_t>()[i] = static_cast<std::uint8_t>(value);
    } else {
      x.values<float>()[i] = static_cast<float>(value);
    }
  }
  return Dataset::from_tensor_slices(std::move(x));
}

std::multiset<std::vector<int>> outcomes(const Dataset& dataset) {
  std::multiset<std::vector<int>> all;
  for (const Element& element : dataset) {
    const auto values = element[0].values<std::uint8_t>();
    all.emplace(values.begin(), values.end());
  }
  return all;
}
using Pixels = std::vector<int>;

TEST(Augment, FlipsHalfOfThePictures) {
  const auto across =
      outcomes(counting(4000, 2, 3).map(transform::random_flip(transform::Flip::kHorizontal)));
  EXPECT_EQ(across.count(Pixels{0, 1, 2, 3, 4, 5}) + across.count(Pixels{2, 1, 0, 5, 4, 3}), 4000u);
  EXPECT_NEAR(static_cast<double>(across.count(Pixels{2, 1, 0, 5, 4, 3})), 2000, 160);
  const auto both = outcomes(counting(4000, 2, 3).map(transform::random_flip()));
  for (const Pixels& pixels : {Pixels{0, 1, 2, 3, 4, 5}, Pixels{2, 1, 0, 5, 4, 3},
                               Pixels{3, 4, 5, 0, 1, 2}, Pixels{5, 4, 3, 2, 1, 0}}) {
    EXPECT_NEAR(static_cast<double>(both.count(pixels)), 1000, 140);
  }
}

TEST(Augment, CropsReachEveryPlaceEquallyOften) {
  const auto crops = outcomes(counting(6000, 3, 4).map(transform::random_crop(2, 2)));
  EXPECT_EQ(std::set<Pixels>(crops.begin(), crops.end()).size(), 6u);
  EXPECT_NEAR(static_cast<double>(crops.count(Pixels{6, 7, 10, 11})), 1000, 150);
  const auto padded = outcomes(counting(9000, 2, 2).map(transform::random_pad_crop(1)));
  EXPECT_EQ(std::set<Pixels>(padded.begin(), padded.end()).size(), 9u);
  EXPECT_NEAR(static_cast<double>(padded.count(Pixels{0, 0, 0, 0})), 1000,
              150);  // only pixel 0 is left
  EXPECT_NEAR(static_cast<double>(padded.count(Pixels{3, 0, 0, 0})), 1000, 150);
  const std::string text =
      error_of<DataError>([] { outcomes(counting(1, 2, 2).map(transform::random_crop(3, 1))); });
  EXPECT_NE(text.find("smaller than the crop"), std::string::npos) << text;
}

TEST(Augment, RotationOfNothingAndTranslationOfNothingChangeNothing) {
  for (const Transform& step : {transform::random_rotation(0), transform::random_translation(0, 0),
                                transform::random_brightness(0), transform::random_contrast(0)}) {
    const auto same = outcomes(counting(3, 5, 4).map(step));
    EXPECT_EQ(same.count(*outcomes(counting(1, 5, 4)).begin()), 3u) << step.describe();
  }
}

TEST(Augment, RotationKeepsTheMiddleAndStaysInRange) {
  for (const transform::FillMode mode :
       {transform::FillMode::kReflect, transform::FillMode::kNearest,
        transform::FillMode::kConstant}) {
    const Dataset dataset = counting(50, 5, 5, DType::kFloat32)
                                .map(transform::random_rotation(1, {.mode = mode, .value = 7}));
    std::set<float> corners;
    for (const Element& element : dataset) {
      EXPECT_NEAR(element[0].at<float>({2, 2, 0}), 12, 1e-4);
      for (const float value : element[0].values<float>()) {
        ASSERT_GE(value, -1e-4);
        ASSERT_LE(value, 24.001);
      }
      corners.insert(element[0].at<float>({0, 0, 0}));
    }
    EXPECT_GT(corners.size(), 25u);
  }
}

TEST(Augment, BrightnessAndContrastClip) {
  const Dataset dataset =
      counting(200, 16, 16).map(transform::random_brightness(1)).map(transform::random_contrast(1));
  std::set<std::uint8_t> first;
  for (const Element& element : dataset) first.insert(element[0].values<std::uint8_t>()[0]);
  EXPECT_GT(first.size(), 50u);
}

TEST(Augment, NumbersAreScaledAsSaid) {
  const Dataset pixels = counting(1, 2, 2);
  const Element scaled = *pixels.map(transform::rescale(0.5f, 1)).begin();
  EXPECT_EQ(scaled[0].values<float>()[3], 2.5f);
  const Element cast = *pixels.map(transform::cast(DType::kInt32)).begin();
  EXPECT_EQ(cast[0].values<std::int32_t>()[3], 3);
  Tensor x(Shape{1, 100, 3}, DType::kUInt8);
  for (std::size_t i = 0; i < 300; ++i)
    x.values<std::uint8_t>()[i] = static_cast<std::uint8_t>(i % 250);
  const Element normal =
      *Dataset::from_tensor_slices(x).map(transform::normalise({1, 2, 3}, {2, 4, 8})).begin();
  for (std::size_t i = 0; i < 300; ++i) {
    const float mean = static_cast<float>(i % 3 + 1), deviation = static_cast<float>(2 << (i % 3));
    ASSERT_NEAR(normal[0].values<float>()[i], (static_cast<float>(i % 250) - mean) / deviation,
                1e-5);
  }
  error_of<ConfigError>([] { transform::normalise({1}, {0}); });
  error_of<ConfigError>([] { transform::cast(DType::kUInt16); });
}

TEST(Augment, LabelsOutOfRangeAreNamed) {
  const Dataset dataset = pictures(12).map(transform::one_hot(7));
  EXPECT_EQ((*dataset.begin())[1].shape(), (Shape{7}));
  const std::string text = error_of<DataError>([&] { run(dataset.batch(4)); });
  EXPECT_NE(text.find("sample 7: label out of range; expected 0 to 6; got 7"), std::string::npos)
      << text;
}

TEST(Augment, TheCommandLineSpellingIsChecked) {
  EXPECT_EQ(transform::parse_augment("").size(), 0u);
  EXPECT_EQ(transform::parse_augment("flip,crop:4").at(1).describe(), "random_pad_crop(4)");
  for (const char* bad : {"flop", "flip:sideways", "crop", "crop:x", "crop:0", "rotation:2",
                          "flip,", ",flip", "contrast:nan"}) {
    const std::string text = error_of<ConfigError>([&] { transform::parse_augment(bad); });
    EXPECT_EQ(text[0], '[') << bad;
  }
  Sample sample;
  sample.resize(1);
  error_of<ConfigError>([&] { transform::random_flip()(sample); });
}

}  // namespace
}  // namespace surefit::data
