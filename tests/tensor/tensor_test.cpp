// SPDX-License-Identifier: Apache-2.0
#include "surefit/tensor.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace surefit {
namespace {

Tensor counting(Shape shape) {
  Tensor tensor(std::move(shape));
  std::span<float> values = tensor.values<float>();
  std::iota(values.begin(), values.end(), 0.0f);
  return tensor;
}

TEST(Tensor, AccessIsRowMajor) {
  const Tensor tensor = counting({2, 3, 4});
  EXPECT_EQ(tensor.at<float>({1, 2, 3}), 23.0f);
  EXPECT_EQ(tensor.at<float>({0, 1, 0}), 4.0f);
}

TEST(Tensor, OutOfRangeIsAnErrorInEveryDirection) {
  Tensor tensor = counting({2, 3});
  EXPECT_THROW(tensor.at<float>({2, 0}), ConfigError);
  EXPECT_THROW(tensor.at<float>({0, 3}), ConfigError);
  EXPECT_THROW(tensor.at<float>({-1, 0}), ConfigError);
  EXPECT_THROW(tensor.at<float>({0}), ConfigError);
  EXPECT_THROW(tensor.at<float>({0, 0, 0}), ConfigError);
  EXPECT_THROW(tensor.at<double>({0, 0}), ConfigError);
  EXPECT_THROW(tensor.slice(1, 3), ConfigError);
  EXPECT_THROW(tensor.slice(-1, 1), ConfigError);
  EXPECT_THROW(tensor.reshape({7}), ConfigError);
}

TEST(Tensor, SliceAndReshapeCopy) {
  const Tensor tensor = counting({4, 2});
  const Tensor rows = tensor.slice(1, 3);
  EXPECT_EQ(rows.shape(), (Shape{2, 2}));
  EXPECT_EQ(rows.at<float>({0, 0}), 2.0f);
  EXPECT_EQ(tensor.reshape({2, 4}).at<float>({1, 3}), 7.0f);
}

TEST(Shape, ImpossibleExtentsAreRefused) {
  EXPECT_THROW((Shape{-1}), ConfigError);
  EXPECT_THROW((Shape{std::int64_t{1} << 40, std::int64_t{1} << 40}), ConfigError);
  EXPECT_EQ((Shape{2, 3}).to_string(), "(2, 3)");
  EXPECT_THROW((Shape{2, 3})[2], ConfigError);
}

TEST(Tensor, AnAbsurdSizeIsASystemErrorNotACrash) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers' operator new ends the program instead of throwing";
#endif
  EXPECT_THROW(Tensor({std::int64_t{1} << 50}), SystemError);
}

}  // namespace
}  // namespace surefit
