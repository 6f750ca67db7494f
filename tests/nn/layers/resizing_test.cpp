// SPDX-License-Identifier: Apache-2.0
// UpSampling2D, ZeroPadding2D and Cropping2D, and what happens to a padding before a convolution.
#include <algorithm>

#include <gtest/gtest.h>

#include "surefit/model.hpp"

#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

// Weights of the source pixels of one output coordinate: half-pixel centres, clamped at the edges.
struct Source {
  std::int64_t low, high;
  double to_high;
};
Source source_of(std::int64_t at, int factor, std::int64_t size) {
  const double centre = (static_cast<double>(at) + 0.5) / factor - 0.5;
  const double low = std::floor(centre);
  const auto clamp = [&](double x) {
    return static_cast<std::int64_t>(std::clamp(x, 0.0, static_cast<double>(size - 1)));
  };
  return {clamp(low), clamp(low + 1), centre - low};
}

LayerCase upsample(std::string name, Shape input, const UpSampling2D& spec) {
  const Reference reference = [spec](const std::vector<Array>& inputs, const Parameters&) {
    const Array& x = inputs[0];
    Array y({x.shape[0], x.shape[1] * spec.size.h, x.shape[2] * spec.size.w, x.shape[3]});
    const bool bilinear = spec.interpolation == "bilinear";
    for (std::int64_t n = 0; n < y.shape[0]; ++n) {
      for (std::int64_t h = 0; h < y.shape[1]; ++h) {
        for (std::int64_t w = 0; w < y.shape[2]; ++w) {
          for (std::int64_t c = 0; c < y.shape[3]; ++c) {
            if (!bilinear) {
              y.at(n, h, w, c) = x.at(n, h / spec.size.h, w / spec.size.w, c);
              continue;
            }
            const Source v = source_of(h, spec.size.h, x.shape[1]),
                         u = source_of(w, spec.size.w, x.shape[2]);
            y.at(n, h, w, c) = (1 - v.to_high) * ((1 - u.to_high) * x.at(n, v.low, u.low, c) +
                                                  u.to_high * x.at(n, v.low, u.high, c)) +
                               v.to_high * ((1 - u.to_high) * x.at(n, v.high, u.low, c) +
                                            u.to_high * x.at(n, v.high, u.high, c));
          }
        }
      }
    }
    return y;
  };
  return {
      .name = std::move(name), .layer = spec, .inputs = {std::move(input)}, .reference = reference};
}

std::vector<LayerCase> upsampling_cases() {
  std::vector<LayerCase> list = {
      upsample("double", {3, 4, 8}, {}),
      upsample("uneven", {3, 2, 5}, {.size = {3, 1}}),
      upsample("bilinear", {3, 4, 8}, {.interpolation = "bilinear"}),
      upsample("bilinear_uneven", {4, 3, 13}, {.size = {3, 2}, .interpolation = "bilinear"}),
      upsample("bilinear_one_pixel", {1, 1, 3}, {.interpolation = "bilinear"}),
  };
  list[0].invalid = {{"size", std::int64_t{0}},
                     {"interpolation", std::string("cubic")},
                     {"data_format", std::string("channels_first")}};
  return list;
}

// Places the picture `top` rows down and `left` columns right in zeros of another size.
Array place(const Array& x, std::int64_t height, std::int64_t width, int top, int left) {
  Array y({x.shape[0], height, width, x.shape[3]});
  for (std::int64_t n = 0; n < y.shape[0]; ++n) {
    for (std::int64_t h = 0; h < height; ++h) {
      for (std::int64_t w = 0; w < width; ++w) {
        const std::int64_t from_h = h - top, from_w = w - left;
        if (from_h < 0 || from_w < 0 || from_h >= x.shape[1] || from_w >= x.shape[2]) continue;
        for (std::int64_t c = 0; c < x.shape[3]; ++c) y.at(n, h, w, c) = x.at(n, from_h, from_w, c);
      }
    }
  }
  return y;
}

template <typename Spec>
LayerCase moved(std::string name, Shape input, const Spec& spec, const Sides& by, int sign) {
  const Reference reference = [by, sign](const std::vector<Array>& inputs, const Parameters&) {
    const Shape& shape = inputs[0].shape;
    return place(inputs[0], shape[1] + sign * (by.top + by.bottom),
                 shape[2] + sign * (by.left + by.right), sign * by.top, sign * by.left);
  };
  return {
      .name = std::move(name), .layer = spec, .inputs = {std::move(input)}, .reference = reference};
}

std::vector<LayerCase> padding_cases() {
  const auto pad = [](std::string name, Shape input, const Sides& by) {
    return moved(std::move(name), std::move(input), ZeroPadding2D{.padding = by}, by, 1);
  };
  std::vector<LayerCase> list = {pad("all_sides", {3, 4, 8}, 1), pad("rgb", {2, 3, 3}, {2, 1}),
                                 pad("uneven", {3, 2, 13}, {0, 1, 2, 0}),
                                 pad("nothing", {2, 2, 5}, 0)};
  list[0].invalid = {{"padding", std::int64_t{-1}},
                     {"padding", ConfigList{std::int64_t{1}}},
                     {"padding", std::string("same")},
                     {"data_format", std::string("channels_first")}};
  return list;
}

std::vector<LayerCase> cropping_cases() {
  const auto crop = [](std::string name, Shape input, const Sides& by) {
    return moved(std::move(name), std::move(input), Cropping2D{.cropping = by}, by, -1);
  };
  std::vector<LayerCase> list = {crop("all_sides", {5, 4, 8}, 1), crop("rgb", {6, 3, 3}, {2, 1}),
                                 crop("uneven", {3, 4, 13}, {0, 1, 2, 0}),
                                 crop("nothing", {2, 2, 5}, 0)};
  list[0].invalid = {{"cropping", std::int64_t{-1}},
                     {"cropping", std::int64_t{2}},  // nothing left
                     {"data_format", std::string("channels_first")}};
  return list;
}

const bool kAdded = add_conformance("UpSampling2D", upsampling_cases) &&
                    add_conformance("ZeroPadding2D", padding_cases) &&
                    add_conformance("Cropping2D", cropping_cases);

// A padding that the convolution takes over must give the bits of the convolution's own padding.
TEST(ZeroPadding, JoinsTheConvolutionBehindIt) {
  const auto train = [](const std::vector<Layer>& layers) {
    Sequential model({6, 7, 3}, layers);
    model.compile({.optimizer = "sgd", .loss = "mse"});
    const Tensor x = random_tensor({4, 6, 7, 3}, 1);
    model.fit(x, random_tensor({4, 6, 7, 8}, 2), {.batch_size = 4, .epochs = 2});
    const Tensor y = model.predict(x);
    return std::vector<float>(y.values<float>().begin(), y.values<float>().end());
  };
  const Conv2D valid = {.filters = 8, .kernel_size = 3},
               same = {.filters = 8, .kernel_size = 3, .padding = "same"};
  const DepthwiseConv2D deep_valid = {.kernel_size = 3},
                        deep_same = {.kernel_size = 3, .padding = "same"};
  EXPECT_EQ(train({ZeroPadding2D{}, valid, ZeroPadding2D{}, valid, ZeroPadding2D{}, deep_valid}),
            train({same, same, deep_same}));
}

}  // namespace
}  // namespace surefit::conformance
