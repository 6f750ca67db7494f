// SPDX-License-Identifier: Apache-2.0
#include "interop/idx.hpp"

#include <array>

#include <gtest/gtest.h>
#include <zlib.h>

#include "interop/support.hpp"

namespace surefit {
namespace {

using testing::expect_error;
using testing::memory;

class IdxTest : public testing::DirectoryTest {};

std::string idx(int type, std::initializer_list<std::uint32_t> dims, const std::string& data) {
  std::string bytes = {'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (const std::uint32_t extent : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(extent >> shift);
  }
  return bytes + data;
}

std::string gzip(const std::string& bytes) {
  z_stream zlib{};
  deflateInit2(&zlib, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(bytes.size() + 1000, '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  zlib.avail_in = static_cast<uInt>(bytes.size());
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

TEST_F(IdxTest, ReadsEveryTypePlainAndZipped) {
  const std::string two = idx(0x0C, {2}, std::string("\x00\x00\x01\x02\xff\xff\xff\xfe", 8));
  for (const std::string& bytes : {two, gzip(two), gzip(two.substr(0, 5)) + gzip(two.substr(5))}) {
    const Tensor tensor = parse_idx(memory(bytes), "a");
    ASSERT_EQ(tensor.shape(), Shape{2});
    EXPECT_EQ(tensor.values<std::int32_t>()[0], 258);
    EXPECT_EQ(tensor.values<std::int32_t>()[1], -2);
  }
  const Tensor one = parse_idx(memory(idx(0x0D, {1}, std::string("\x3f\x80\x00\x00", 4))), "a");
  EXPECT_EQ(one.values<float>()[0], 1.0f);
  EXPECT_EQ(parse_idx(memory(idx(0x0E, {1, 1}, std::string(8, '\0'))), "a").dtype(),
            DType::kFloat64);
  EXPECT_EQ(parse_idx(memory(idx(0x0B, {3}, std::string(6, '\0'))), "a").dtype(), DType::kInt16);
  EXPECT_EQ(parse_idx(memory(idx(0x09, {0, 5}, "")), "a").shape(), (Shape{0, 5}));
}

TEST_F(IdxTest, RefusesBadFiles) {
  const auto refused = [](const std::string& bytes, std::initializer_list<std::string_view> texts) {
    expect_error<DataError>([&] { parse_idx(memory(bytes), "a.idx"); }, texts);
  };
  const std::string good = idx(0x08, {2, 3}, "abcdef");
  for (std::size_t length = 0; length < good.size(); ++length)
    refused(good.substr(0, length), {"a.idx", "cut off"});
  const std::string zipped = gzip(good);
  for (std::size_t length = 0; length < zipped.size(); ++length)
    refused(zipped.substr(0, length), {"a.idx"});
  refused(good + "x", {"left over"});
  refused(zipped + "x", {"compressed data"});
  refused(gzip(good + "x"), {"left over"});
  refused(idx(0x07, {1}, "a"), {"a.idx: type", "0x07"});
  refused("\x01" + good, {"not an IDX file"});
  refused(idx(0x08, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, ""), {"extents", "impossible shape"});
  refused(idx(0x08, {0xFFFFFFFF}, ""), {"data", "4294967295 bytes"});
  refused(gzip(idx(0x08, {0xFFFFFFFF}, "")), {"data", "4294967295 bytes"});
}

TEST_F(IdxTest, LoadsADirectory) {
  write("train-images-idx3-ubyte.gz", gzip(idx(0x08, {2, 1, 3}, "abcdef")));
  write("train-labels-idx1-ubyte", idx(0x08, {2}, "\x07\x09"));
  write("t10k-images.idx3-ubyte", idx(0x08, {1, 1, 1}, "a"));
  const LabeledImages data = load_idx_directory(env_, directory_, Split::kTrain);
  EXPECT_EQ(data.images.shape(), (Shape{2, 1, 3, 1}));
  EXPECT_EQ(data.images.at<std::uint8_t>({1, 0, 2, 0}), 'f');
  EXPECT_EQ(data.labels.values<std::uint8_t>()[1], 9);
  expect_error<DataError>([&] { load_idx_directory(env_, directory_, Split::kTest); },
                          {directory_, "labels", "t10k-labels-idx1-ubyte"});
  write("t10k-labels-idx1-ubyte", idx(0x08, {2}, "ab"));
  expect_error<DataError>([&] { load_idx_directory(env_, directory_, Split::kTest); },
                          {"t10k-labels-idx1-ubyte", "(1,)", "(2,)"});
  const IdxHeader header = index_idx(env_, path("train-labels-idx1-ubyte"));
  EXPECT_EQ(header.header_bytes, 8u);
  EXPECT_FALSE(header.gzipped);
  EXPECT_TRUE(index_idx(env_, path("train-images-idx3-ubyte.gz")).gzipped);
}

TEST_F(IdxTest, ReadsFashionMnist) {
  const std::string directory = "/usr/share/datasets/fashion-mnist";
  if (!env_.exists(directory)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const LabeledImages data = load_idx_directory(env_, directory, Split::kTest);
  EXPECT_EQ(data.images.shape(), (Shape{10000, 28, 28, 1}));
  std::array<int, 10> counts{};
  for (const std::uint8_t label : data.labels.values<std::uint8_t>()) ++counts.at(label);
  for (const int count : counts) EXPECT_EQ(count, 1000);
}

}  // namespace
}  // namespace surefit
