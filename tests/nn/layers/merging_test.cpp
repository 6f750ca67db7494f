// SPDX-License-Identifier: Apache-2.0
// Add, Multiply, Subtract, Average, Maximum and Minimum, with repeated extents.
#include <gtest/gtest.h>

#include "nn/layers/reference.hpp"

namespace surefit::conformance {
namespace {

// The value of `x` where the output has element `at` of shape `out`.
double broadcast_value(const Array& x, const Shape& out, std::size_t at) {
  std::size_t index = 0, step = 1;
  for (std::size_t axis = out.rank(); axis-- > 0;) {
    const auto extent = static_cast<std::size_t>(out[axis]),
               own = static_cast<std::size_t>(x.shape[axis]);
    if (own > 1) index += at % extent * step;
    at /= extent;
    step *= own;
  }
  return x.values[index];
}

using Combine = double (*)(double, double);

template <typename Spec>
LayerCase merge(std::string name, std::vector<Shape> inputs, Combine combine, bool mean = false) {
  const Reference reference = [combine, mean](const std::vector<Array>& arrays, const Parameters&) {
    std::vector<std::int64_t> dims(arrays[0].shape.rank(), 1);
    for (const Array& array : arrays) {
      for (std::size_t i = 0; i < dims.size(); ++i) dims[i] = std::max(dims[i], array.shape[i]);
    }
    Array y{Shape(dims)};
    for (std::size_t at = 0; at < y.values.size(); ++at) {
      y.values[at] = broadcast_value(arrays[0], y.shape, at);
      for (std::size_t i = 1; i < arrays.size(); ++i)
        y.values[at] = combine(y.values[at], broadcast_value(arrays[i], y.shape, at));
      if (mean) y.values[at] /= static_cast<double>(arrays.size());
    }
    return y;
  };
  return {.name = std::move(name),
          .layer = Spec{},
          .inputs = std::move(inputs),
          .reference = reference};
}

double plus(double a, double b) {
  return a + b;
}
double minus(double a, double b) {
  return a - b;
}
double times(double a, double b) {
  return a * b;
}
double most(double a, double b) {
  return std::max(a, b);
}
double least(double a, double b) {
  return std::min(a, b);
}

std::vector<Shape> alike(const Shape& shape, std::size_t count) {
  return std::vector<Shape>(count, shape);
}

std::vector<LayerCase> add_cases() {
  return {merge<Add>("one_channel", alike({3, 5, 1}, 2), plus),
          merge<Add>("rgb_of_three", alike({2, 3, 3}, 3), plus),
          merge<Add>("eight", alike({2, 2, 8}, 2), plus),
          merge<Add>("thirteen_of_four", alike({3, 2, 13}, 4), plus),
          merge<Add>("rows", alike({13}, 2), plus),
          merge<Add>("rows_of_three", alike({5}, 3), plus),
          merge<Add>("a_pixel_everywhere", {{3, 2, 13}, {1, 1, 13}}, plus)};
}
std::vector<LayerCase> multiply_cases() {
  return {merge<Multiply>("pictures", alike({3, 2, 13}, 2), times),
          merge<Multiply>("of_three", alike({5}, 3), times),
          // Squeeze and excitation: a factor per channel.
          merge<Multiply>("a_factor_per_channel", {{3, 4, 8}, {1, 1, 8}}, times),
          merge<Multiply>("a_mask_for_all_channels", {{3, 2, 1}, {3, 2, 5}}, times),
          merge<Multiply>("both_repeated", {{3, 1, 5}, {1, 4, 5}}, times)};
}
std::vector<LayerCase> subtract_cases() {
  return {merge<Subtract>("pictures", alike({3, 2, 13}, 2), minus),
          merge<Subtract>("rows", alike({7}, 2), minus),
          merge<Subtract>("a_pixel_everywhere", {{3, 2, 8}, {1, 1, 8}}, minus)};
}
std::vector<LayerCase> average_cases() {
  return {merge<Average>("pictures", alike({3, 2, 5}, 3), plus, true),
          merge<Average>("rows", alike({8}, 2), plus, true)};
}
std::vector<LayerCase> maximum_cases() {
  return {merge<Maximum>("pictures", alike({3, 2, 13}, 3), most),
          merge<Maximum>("rows", alike({9}, 2), most)};
}
std::vector<LayerCase> minimum_cases() {
  return {merge<Minimum>("pictures", alike({3, 2, 13}, 2), least),
          merge<Minimum>("rows", alike({9}, 3), least)};
}

const bool kAdded =
    add_conformance("Add", add_cases) && add_conformance("Multiply", multiply_cases) &&
    add_conformance("Subtract", subtract_cases) && add_conformance("Average", average_cases) &&
    add_conformance("Maximum", maximum_cases) && add_conformance("Minimum", minimum_cases);

TEST(MergingLayers, RefuseWhatDoesNotMatch) {
  for (const Layer& layer : {Layer(Add{}), Layer(Multiply{}), Layer(Subtract{}), Layer(Average{}),
                             Layer(Maximum{}), Layer(Minimum{})}) {
    EXPECT_THROW(layer({Input({3, 3, 2})}), ConfigError) << layer.class_name();
    EXPECT_THROW(layer({Input({3, 3, 2}), Input({3, 3, 4})}), ConfigError) << layer.class_name();
    EXPECT_THROW(layer({Input({4}), Input({2, 2})}), ConfigError) << layer.class_name();
  }
  EXPECT_THROW(Layer(Subtract{})({Input({4}), Input({4}), Input({4})}), ConfigError);
}

}  // namespace
}  // namespace surefit::conformance
