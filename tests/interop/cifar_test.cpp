// SPDX-License-Identifier: Apache-2.0
#include "interop/cifar.hpp"

#include <gtest/gtest.h>

#include "interop/support.hpp"

namespace surefit {
namespace {

using testing::expect_error;
using testing::memory;

class CifarTest : public testing::DirectoryTest {};

// One record whose pixel (row, column, channel) is a known function of the three.
std::string record(const std::string& labels, int shift) {
  std::string bytes = labels;
  for (int c = 0; c < 3; ++c) {
    for (int i = 0; i < 1024; ++i) bytes += static_cast<char>((i * 7 + c * 50 + shift) & 0xFF);
  }
  return bytes;
}

void expect_picture(const Tensor& images, std::int64_t index, int shift) {
  for (std::int64_t row = 0; row < 32; ++row) {
    for (std::int64_t column = 0; column < 32; ++column) {
      for (std::int64_t c = 0; c < 3; ++c) {
        ASSERT_EQ(images.at<std::uint8_t>({index, row, column, c}),
                  ((row * 32 + column) * 7 + c * 50 + shift) & 0xFF);
      }
    }
  }
}

TEST_F(CifarTest, ReadsBothKindsChannelsLast) {
  std::string many;
  for (int i = 0; i < 70; ++i) many += record(std::string(1, static_cast<char>(i % 10)), i);
  const CifarBatch ten = parse_cifar(memory(many), "b", Cifar::k10);
  EXPECT_EQ(ten.images.shape(), (Shape{70, 32, 32, 3}));
  EXPECT_TRUE(ten.coarse_labels.empty());
  for (int i = 0; i < 70; ++i) {
    expect_picture(ten.images, i, i);
    EXPECT_EQ(ten.labels.at<std::uint8_t>({i}), i % 10);
  }
  const CifarBatch hundred =
      parse_cifar(memory(record("\x13\x63", 1) + record("\x01\x02", 2)), "b", Cifar::k100);
  expect_picture(hundred.images, 1, 2);
  EXPECT_EQ(hundred.labels.at<std::uint8_t>({0}), 99);
  EXPECT_EQ(hundred.coarse_labels.at<std::uint8_t>({0}), 19);
}

TEST_F(CifarTest, LoadsADirectory) {
  for (int i = 1; i <= 5; ++i) {
    write("data_batch_" + std::to_string(i) + ".bin",
          record(std::string(1, static_cast<char>(i)), i));
  }
  const LabeledImages data = load_cifar_directory(env_, directory_, Cifar::k10, Split::kTrain);
  EXPECT_EQ(data.images.shape(), (Shape{5, 32, 32, 3}));
  for (int i = 0; i < 5; ++i) {
    expect_picture(data.images, i, i + 1);
    EXPECT_EQ(data.labels.at<std::uint8_t>({i}), i + 1);
  }
  expect_error<DataError>([&] { load_cifar_directory(env_, directory_, Cifar::k10, Split::kTest); },
                          {directory_, "test_batch.bin"});
}

TEST_F(CifarTest, RefusesBadFiles) {
  const std::string good = record("\x03", 0);
  const auto refused = [](const std::string& bytes, std::initializer_list<std::string_view> texts) {
    expect_error<DataError>([&] { parse_cifar(memory(bytes), "b.bin", Cifar::k10); }, texts);
  };
  refused("", {"b.bin: file size", "3073"});
  refused(good.substr(0, 3000), {"file size", "got 3000"});
  refused(good + "x", {"file size", "got 3074"});
  refused(good + record("\x0a", 0), {"b.bin: label", "0 to 9", "got 10", "byte 3073"});
}

}  // namespace
}  // namespace surefit
