// SPDX-License-Identifier: Apache-2.0
#include "base/env.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "surefit/error.hpp"

namespace surefit {
namespace {

class EnvTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "surefit-env-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  static std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
  Env& env_ = Env::posix();
  std::string directory_;
};

TEST_F(EnvTest, WritesAndReadsBack) {
  const std::string path = directory_ + "/file";
  write_file_atomically(env_, path, [](WritableFile& file) {
    file.preallocate(1000);
    file.append(bytes("hello "));
    file.append(bytes("world"));
  });
  EXPECT_EQ(read_file(env_, path), "hello world");
  EXPECT_EQ(env_.list(directory_), std::vector<std::string>{"file"});
}

TEST_F(EnvTest, AFailedWriteLeavesTheOldFileAndNoPartial) {
  const std::string path = directory_ + "/file";
  write_file_atomically(env_, path, [](WritableFile& file) { file.append(bytes("old")); });
  EXPECT_THROW(write_file_atomically(env_, path,
                                     [](WritableFile& file) {
                                       file.append(bytes("new"));
                                       throw DataError("broken off");
                                     }),
               DataError);
  EXPECT_EQ(read_file(env_, path), "old");
  EXPECT_EQ(env_.list(directory_).size(), 1u);
}

TEST_F(EnvTest, ErrorsNamePathAndCause) {
  try {
    env_.open_read(directory_ + "/missing");
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_EQ(error.error_number(), ENOENT);
    EXPECT_NE(std::string(error.what()).find("missing"), std::string::npos);
  }
  EXPECT_THROW(env_.open_read(directory_), SystemError);
}

}  // namespace
}  // namespace surefit
