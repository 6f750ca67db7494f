// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "interop/npy.hpp"
#include "interop/support.hpp"

namespace surefit {
namespace {

using testing::data_path;
using testing::expect_error;
using testing::expect_same;
using testing::memory;
using testing::random_tensor;

class NpzTest : public testing::DirectoryTest {};

float half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -24)
                              : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// Element i as a number, whatever the type.
double number(const Tensor& tensor, std::size_t i) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return tensor.values<float>()[i];
    case DType::kFloat64:
      return tensor.values<double>()[i];
    case DType::kFloat16:
      return half_value(little_endian<std::uint16_t>(tensor.raw(), 2 * i));
    case DType::kInt8:
      return tensor.values<std::int8_t>()[i];
    case DType::kInt16:
      return tensor.values<std::int16_t>()[i];
    case DType::kInt32:
      return tensor.values<std::int32_t>()[i];
    case DType::kInt64:
      return static_cast<double>(tensor.values<std::int64_t>()[i]);
    case DType::kUInt8:
      return tensor.values<std::uint8_t>()[i];
    case DType::kUInt16:
      return tensor.values<std::uint16_t>()[i];
    case DType::kUInt32:
      return tensor.values<std::uint32_t>()[i];
    case DType::kUInt64:
      return static_cast<double>(tensor.values<std::uint64_t>()[i]);
    case DType::kBool:
      return tensor.values<bool>()[i];
  }
  return -1;
}

void expect_fixture(const Tensor& tensor, const std::string& name) {
  ASSERT_EQ(tensor.shape(), (Shape{2, 3, 4})) << name;
  const bool is_unsigned = name_of(tensor.dtype()).front() == 'u';
  for (std::size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(number(tensor, i), static_cast<double>(i) - (is_unsigned ? 0 : 5))
        << name << " " << i;
  }
}

TEST_F(NpzTest, ReadsWhatNumpyWrote) {
  for (const char* archive : {"numpy/stored.npz", "numpy/deflated.npz"}) {
    const NpzFile file = NpzFile::open(env_, data_path(archive));
    EXPECT_EQ(file.names().size(), 36u);
    for (const char* code : {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"}) {
      for (const char* order : {"little_", "big_", "fortran_"}) {
        const std::string name = std::string(order) + code;
        expect_fixture(file.read(name), archive + (" " + name));
      }
    }
    const Tensor flags = file.read("bool");
    for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(flags.values<bool>()[i], i % 3 == 0);
    EXPECT_EQ(file.read("scalar").shape(), Shape());
    EXPECT_EQ(file.read("scalar").values<float>()[0], -5.0f);
    EXPECT_EQ(file.read("empty").shape(), (Shape{0, 3}));
  }
  for (const char* archive : {"numpy/zip64.npz", "numpy/zip64_throughout.npz"}) {
    const NpzFile file = NpzFile::open(env_, data_path(archive));
    expect_fixture(file.read("x"), archive);
  }
  for (const char* array : {"numpy/plain.npy", "numpy/version2.npy"}) {
    expect_fixture(read_npy(env_, data_path(array)), array);
  }
}

TEST_F(NpzTest, RefusesWhatIsNotNumbers) {
  expect_error<DataError>([&] { read_npy(env_, data_path("numpy/object.npy")); },
                          {"object.npy: array header", "pickled", "|O"});
  expect_error<DataError>([&] { read_npy(env_, data_path("numpy/structured.npy")); },
                          {"structured"});
  expect_error<DataError>([&] { read_npy(env_, data_path("numpy/complex.npy")); },
                          {"unknown type", "c8"});
  expect_error<DataError>([&] { read_npy(env_, data_path("numpy/text.npy")); },
                          {"unknown type", "<U2"});
  expect_error<DataError>([&] { parse_npy(memory("\x80\x04\x95 pickle"), "p.npy"); }, {"pickle"});
}

TEST_F(NpzTest, RoundTripsRandomTensors) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<Tensor> tensors;
    for (std::uint64_t i = 0; i < seed % 7; ++i) tensors.push_back(random_tensor(seed * 100 + i));
    std::vector<TensorRef> refs;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      refs.push_back({std::to_string(9 - i), tensors[i]});
    write_npz(env_, path("a.npz"), refs);
    const std::vector<NamedTensor> back = read_npz(env_, path("a.npz"));
    ASSERT_EQ(back.size(), refs.size());
    for (std::size_t i = 0; i < refs.size(); ++i) {
      EXPECT_EQ(back[i].name, refs[i].name);
      expect_same(back[i].tensor, refs[i].tensor);
    }
    write_npy(env_, path("a.npy"), random_tensor(seed));
    expect_same(read_npy(env_, path("a.npy")), random_tensor(seed));
    EXPECT_EQ(index_npy(env_, path("a.npy")).shape, random_tensor(seed).shape());
  }
}

// ours.npz is our output, which make_fixtures.py has numpy load and check: as long as we write the
// same bytes, numpy loads them.
TEST_F(NpzTest, NumpyLoadsOurs) {
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const Tensor x = Tensor::of<float>({2, 3}, values);
  const Tensor y({2}, DType::kInt64);
  const Tensor half({4}, DType::kFloat16);
  const Tensor flag({1, 2}, DType::kBool);
  const Tensor scalar(Shape(), DType::kUInt8);
  write_npz(env_, path("ours.npz"),
            {{"x", x}, {"y", y}, {"half", half}, {"flag", flag}, {"scalar", scalar}});
  EXPECT_EQ(read_file(env_, path("ours.npz")), read_file(env_, data_path("numpy/ours.npz")));
}

TEST_F(NpzTest, StoredRowsAreReadInPlace) {
  std::vector<float> values(12);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Tensor x = Tensor::of<float>({4, 3}, values);
  write_npz(env_, path("a.npz"), {{"skip", x}, {"x", x}});
  const NpzFile file = NpzFile::open(env_, path("a.npz"));
  const NpzMember& member = file.member("x");
  ASSERT_TRUE(member.stored && member.data_offset && member.header.plain());
  EXPECT_EQ(member.header.shape, (Shape{4, 3}));
  std::array<float, 3> row{};
  env_.open_read(path("a.npz"))
      ->read_at(*member.data_offset + 24, std::as_writable_bytes(std::span(row)));
  EXPECT_EQ(row, (std::array<float, 3>{6, 7, 8}));
  file.read_data("x", 36, std::as_writable_bytes(std::span(row)));
  EXPECT_EQ(row, (std::array<float, 3>{9, 10, 11}));
  EXPECT_THROW(file.read_data("x", 37, std::as_writable_bytes(std::span(row))), ConfigError);
  const NpzFile deflated = NpzFile::open(env_, data_path("numpy/deflated.npz"));
  EXPECT_FALSE(deflated.member("little_f4").data_offset.has_value());
  EXPECT_THROW(deflated.read_data("little_f4", 0, std::as_writable_bytes(std::span(row))),
               ConfigError);
}

TEST_F(NpzTest, ReadsKerasCases) {
  for (const char* name : {"seed_cnn", "resnet_tiny", "mobile_tiny", "unet_tiny"}) {
    const std::string directory = data_path(std::string("keras_cases/") + name);
    for (const char* archive : {"/data.npz", "/expected.npz"}) {
      EXPECT_GE(read_npz(env_, directory + archive).size(), 2u) << name;
    }
    const NpzFile data = NpzFile::open(env_, directory + "/data.npz");
    EXPECT_EQ(data.member("x").header.shape[0], data.member("y").header.shape[0]);
  }
}

TEST_F(NpzTest, NamesWhatIsMissing) {
  const NpzFile file = NpzFile::open(env_, data_path("numpy/zip64.npz"));
  expect_error<DataError>([&] { file.read("y"); }, {"zip64.npz", "\"x\"", "got \"y\""});
  const Tensor a({1});
  EXPECT_THROW(write_npz(env_, path("a"), {{"../a", a}}), ConfigError);
  EXPECT_THROW(write_npz(env_, path("a"), {{"a", a}, {"a", a}}), ConfigError);
  EXPECT_TRUE(env_.list(directory_).empty());
}

TEST_F(NpzTest, EveryTruncationAndEveryFlippedByteIsSurvived) {
  for (const char* name : {"numpy/zip64.npz", "numpy/zip64_throughout.npz"}) {
    const std::string bytes = read_file(env_, data_path(name));
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_THROW(NpzFile::parse(memory(bytes.substr(0, length)), "cut"), DataError) << length;
    }
  }
  // The data itself is guarded by the checksum: a flip there must be seen.
  const std::string good = read_file(env_, data_path("numpy/zip64.npz"));
  const std::uint64_t data = *NpzFile::parse(memory(good), "a").member("x").data_offset;
  for (std::size_t i = 0; i < 96; ++i) {
    std::string bad = good;
    bad[data + i] = static_cast<char>(bad[data + i] ^ 0x10);
    const NpzFile file = NpzFile::parse(memory(bad), "a");
    expect_error<DataError>([&] { file.read("x"); }, {"[a: \"x\"]", "checksum"});
  }
}

TEST_F(NpzTest, RefusesHostileHeaders) {
  const auto npy = [](const std::string& text) {
    std::string bytes("\x93NUMPY\x01\x00", 8);
    bytes += static_cast<char>(text.size() & 0xFF);
    bytes += static_cast<char>(text.size() >> 8);
    return bytes + text;
  };
  const auto refused = [&](const std::string& text, std::initializer_list<std::string_view> texts) {
    expect_error<DataError>([&] { parse_npy(memory(npy(text)), "a.npy"); }, texts);
  };
  EXPECT_EQ(parse_npy(memory(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}")), "a")
                .count(),
            0u);
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
          {"extent too large"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
          {"impossible shape"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000,)}",
          {"cut off", "4000000 bytes"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", {"an integer"});
  refused("{'descr': '<f4', 'shape': (0,)}", {"missing"});
  refused("{'descr': '<f4', 'descr': '<f4', 'shape': (0,)}", {"twice"});
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (0,)} evil", {"text after"});
  refused("{'descr': '', 'fortran_order': False, 'shape': (0,)}", {"unknown type"});
  refused("{'descr", {"end of a string"});
  refused("", {"'{'"});
}

}  // namespace
}  // namespace surefit
