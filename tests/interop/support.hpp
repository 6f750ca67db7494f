// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdlib.h>
#include <string>

#include <gtest/gtest.h>

#include "surefit/tensor.hpp"

#include "base/env.hpp"
#include "base/philox.hpp"
#include "interop/bytes.hpp"

namespace surefit::testing {

inline std::string data_path(const std::string& name) {
  return std::string(SUREFIT_TEST_DATA) + "/" + name;
}

class DirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "surefit-interop-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  Env& env_ = Env::posix();
  std::string directory_;
};

inline std::unique_ptr<ReadableFile> memory(std::string_view bytes) {
  return std::make_unique<MemoryFile>(bytes);
}

// Runs `call`, which must throw E with every one of `texts` in its message.
template <typename E, typename Call>
void expect_error(Call&& call, std::initializer_list<std::string_view> texts) {
  try {
    call();
    ADD_FAILURE() << "no error; expected one about " << *texts.begin();
  } catch (const E& error) {
    for (const std::string_view text : texts) {
      EXPECT_NE(std::string_view(error.what()).find(text), std::string_view::npos)
          << "\"" << error.what() << "\" does not say \"" << text << "\"";
    }
  }
}

constexpr std::array<DType, 12> kAllDTypes = {DType::kFloat32, DType::kFloat64, DType::kFloat16,
                                              DType::kInt8,    DType::kInt16,   DType::kInt32,
                                              DType::kInt64,   DType::kUInt8,   DType::kUInt16,
                                              DType::kUInt32,  DType::kUInt64,  DType::kBool};

// A tensor of random type, shape (rank 0 to 4, extents from 0) and bytes.
inline Tensor random_tensor(std::uint64_t seed) {
  const Philox random(seed, Purpose::kTest, 0, 0, 0);
  std::vector<std::int64_t> dims(random.word(0) % 5);
  for (std::size_t i = 0; i < dims.size(); ++i) dims[i] = random.word(2 + i) % 6;
  const DType dtype = kAllDTypes[random.word(1) % kAllDTypes.size()];
  Tensor tensor(Shape(std::move(dims)), dtype);
  for (std::size_t i = 0; i < tensor.bytes(); ++i) {
    const std::uint32_t word = random.word(16 + i);
    tensor.raw()[i] = static_cast<std::byte>(dtype == DType::kBool ? word & 1 : word & 0xFF);
  }
  return tensor;
}

inline void expect_same(const Tensor& got, const Tensor& want) {
  EXPECT_EQ(got.shape(), want.shape());
  EXPECT_EQ(got.dtype(), want.dtype());
  EXPECT_TRUE(std::equal(got.raw().begin(), got.raw().end(), want.raw().begin(), want.raw().end()));
}

}  // namespace surefit::testing
