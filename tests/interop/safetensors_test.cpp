// SPDX-License-Identifier: Apache-2.0
#include "interop/safetensors.hpp"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "interop/support.hpp"

namespace surefit {
namespace {

using testing::data_path;
using testing::expect_error;
using testing::expect_same;
using testing::memory;
using testing::random_tensor;

class SafetensorsTest : public testing::DirectoryTest {};

// A file by hand: the header's length, the header, `data` zero bytes.
std::string file_of(const std::string& header, std::size_t data) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
  return bytes + header + std::string(data, '\0');
}

void expect_refused(const std::string& bytes, std::initializer_list<std::string_view> texts) {
  expect_error<DataError>([&] { SafetensorsFile::parse(memory(bytes), "w.safetensors"); }, texts);
}

TEST_F(SafetensorsTest, RoundTripsRandomTensors) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < seed % 7; ++i) tensors.push_back(random_tensor(seed * 100 + i));
    std::vector<TensorRef> refs;
    // Names run against the alphabet, so that order comes from the list and from nothing else.
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      refs.push_back({"layer \"" + std::to_string(9 - i) + "\"/gew\u00e4cht", tensors[i]});
    }
    const SafetensorsMetadata metadata = {{"format", "pt"}, {"note", "line\nbreak \"quoted\""}};
    write_safetensors(env_, path("w"), refs, metadata);
    const SafetensorsFile file = SafetensorsFile::open(env_, path("w"));
    EXPECT_EQ(file.metadata(), metadata);
    ASSERT_EQ(file.names().size(), refs.size());
    for (const TensorRef& ref : refs) expect_same(file.read(ref.name), ref.tensor);
  }
}

TEST_F(SafetensorsTest, KeepsTheOrderAndEqualInputsGiveEqualBytes) {
  const Tensor a({2, 3});
  const Tensor b({5}, DType::kUInt8);
  write_safetensors(env_, path("1"), {{"z", a}, {"a", b}, {"m", a}});
  write_safetensors(env_, path("2"), {{"z", a}, {"a", b}, {"m", a}});
  EXPECT_EQ(SafetensorsFile::open(env_, path("1")).names(),
            (std::vector<std::string>{"z", "a", "m"}));
  EXPECT_EQ(read_file(env_, path("1")), read_file(env_, path("2")));
}

// Reads our file by the specification alone, without our reader.
TEST_F(SafetensorsTest, WritesWhatTheSpecificationSays) {
  const std::vector<float> values = {1.5f, -2.0f, 0.25f};
  const Tensor bias = Tensor::of<float>({3}, values);
  const Tensor flag({3, 1}, DType::kBool);
  write_safetensors(env_, path("w"), {{"dense/bias", bias}, {"flag", flag}}, {{"k", "v"}});
  const std::string bytes = read_file(env_, path("w"));
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  EXPECT_EQ((8 + length) % 8, 0u);
  EXPECT_EQ(bytes[8], '{');
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  EXPECT_EQ(header.at("__metadata__"), nlohmann::json({{"k", "v"}}));
  EXPECT_EQ(header.at("dense/bias"),
            nlohmann::json({{"dtype", "F32"}, {"shape", {3}}, {"data_offsets", {0, 12}}}));
  EXPECT_EQ(header.at("flag"),
            nlohmann::json({{"dtype", "BOOL"}, {"shape", {3, 1}}, {"data_offsets", {12, 15}}}));
  EXPECT_EQ(bytes.size(), 8 + length + 15);
  EXPECT_EQ(0, std::memcmp(bytes.data() + 8 + length, values.data(), 12));
}

TEST_F(SafetensorsTest, WriterStreamsInPieces) {
  const Tensor a = random_tensor(3);
  const std::vector<SafetensorsSpec> specs = {{"a", a.dtype(), a.shape()},
                                              {"b", DType::kUInt8, Shape{4}}};
  const std::vector<std::byte> four(4, std::byte{7});
  write_file_atomically(env_, path("w"), [&](WritableFile& file) {
    SafetensorsWriter writer(file, specs);
    for (const std::byte& b : a.raw()) writer.append(std::span(&b, 1));
    EXPECT_THROW(writer.finish(), InternalError);
    writer.append(four);
    EXPECT_THROW(writer.append(std::span(four).first(1)), InternalError);
    EXPECT_EQ(writer.total_bytes(), SafetensorsWriter::file_bytes(specs));
    writer.finish();
  });
  EXPECT_EQ(env_.open_read(path("w"))->size(), SafetensorsWriter::file_bytes(specs));
  expect_same(SafetensorsFile::open(env_, path("w")).read("a"), a);
}

TEST_F(SafetensorsTest, WriterRefusesBadNamesAndLeavesNoFile) {
  const Tensor a({1});
  for (const std::string& name :
       {std::string(), std::string("__metadata__"), std::string("\xff")}) {
    EXPECT_THROW(write_safetensors(env_, path("w"), {{name, a}}), ConfigError) << name;
  }
  EXPECT_THROW(write_safetensors(env_, path("w"), {{"a", a}, {"a", a}}), ConfigError);
  EXPECT_TRUE(env_.list(directory_).empty());
}

TEST_F(SafetensorsTest, ReadsKerasCases) {
  for (const char* name : {"seed_cnn", "resnet_tiny", "mobile_tiny", "unet_tiny"}) {
    for (const char* when : {"init", "after"}) {
      const SafetensorsFile file = SafetensorsFile::open(
          env_, data_path(std::string("keras_cases/") + name + "/" + when + ".safetensors"));
      EXPECT_GE(file.names().size(), 4u);
      std::uint64_t total = 0;
      for (const std::string& tensor : file.names()) {
        const Tensor values = file.read(tensor);
        EXPECT_EQ(values.dtype(), DType::kFloat32);
        total += values.bytes();
        for (const float value : values.values<float>()) ASSERT_LT(std::abs(value), 1e3f);
      }
      EXPECT_EQ(file.entry(file.names().back()).offset + file.entry(file.names().back()).bytes,
                file.entry(file.names().front()).offset + total);
    }
  }
}

TEST_F(SafetensorsTest, ReadIntoChecksTheBuffer) {
  const Tensor a({4});
  write_safetensors(env_, path("w"), {{"a", a}});
  const SafetensorsFile file = SafetensorsFile::open(env_, path("w"));
  std::vector<std::byte> buffer(15);
  EXPECT_THROW(file.read_into("a", buffer), ConfigError);
  expect_error<DataError>([&] { file.read("b"); }, {path("w"), "no tensor", "\"a\"", "\"b\""});
}

TEST_F(SafetensorsTest, EveryTruncationIsRefused) {
  const Tensor a({3});
  write_safetensors(env_, path("w"), {{"a", a}});
  const std::string bytes = read_file(env_, path("w"));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(SafetensorsFile::parse(memory(bytes.substr(0, length)), "cut"), DataError)
        << length;
  }
  expect_refused(bytes + '\0', {"w.safetensors", "after the last tensor"});
}

TEST_F(SafetensorsTest, RefusesHostileHeaders) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_NO_THROW(SafetensorsFile::parse(memory(file_of(good, 8)), "w"));
  expect_refused(std::string(8, '\xff') + good, {"header length", "18446744073709551615"});
  expect_refused(file_of("[]", 0), {"w.safetensors", "'{'"});
  expect_refused(file_of(R"({"a":)", 0), {"not JSON"});
  expect_refused(file_of(R"({"a":1})", 0), {"[w.safetensors: a]", "an object"});
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                         R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                         8),
                 {"twice", "\"a\""});
  expect_refused(file_of(R"({"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}})", 8),
                 {"a.dtype", "unknown dtype", "Q4"});
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
                 {"a.shape[0]", "-2"});
  expect_refused(
      file_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]}})", 8),
      {"a.shape", "impossible shape"});
  expect_refused(
      file_of(R"({"a":{"dtype":"F32","shape":[9223372036854775807,4],"data_offsets":[0,8]}})", 8),
      {"a.shape"});
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
                 {"a.data_offsets", "begin <= end"});
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 8),
                 {"a.data_offsets", "8 bytes", "got 4"});
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
                 {"a.data_offsets", "hole"});
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                         R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                         12),
                 {"b.data_offsets", "overlaps"});
  expect_refused(
      file_of(
          R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[9007199254740992000,9007199254740992008]}})",
          8),
      {"data out of the file"});
  expect_refused(file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})", 8),
                 {"a.more", "unknown field"});
  expect_refused(file_of(R"({"__metadata__":{"k":1}})", 0), {"__metadata__.k", "a string"});
  expect_refused(file_of("{\"a\":" + std::string(5000, '[') + std::string(5000, ']') + "}", 0),
                 {"too deep"});
}

TEST_F(SafetensorsTest, ABoolMustBeZeroOrOne) {
  std::string bytes = file_of(R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", 2);
  bytes.back() = '\x02';
  const SafetensorsFile file = SafetensorsFile::parse(memory(bytes), "w");
  expect_error<DataError>([&] { file.read("a"); }, {"[w: \"a\"]", "0 or 1", "got 2"});
}

}  // namespace
}  // namespace surefit
