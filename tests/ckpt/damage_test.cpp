// SPDX-License-Identifier: Apache-2.0
// Files that changed after they were written: every change is noticed, and an older generation is
// taken.
#include <gtest/gtest.h>

#include "ckpt/model_env.hpp"
#include "ckpt/support.hpp"

namespace surefit {
namespace {

constexpr const char* kPath = "c/step-00000020.safetensors";

std::string good_file(std::uint64_t step) {
  ModelEnv env;
  TestSource source(step);
  write_checkpoint(env, kPath, {.tensors = test_tensors(), .step = step, .state = test_state(step)},
                   source);
  return env.files().at(kPath);
}

bool accepted(const std::string& bytes) {
  ModelEnv env(ModelEnv::Files{{kPath, bytes}});
  try {
    CheckpointFile::open(env, kPath);
    return true;
  } catch (const DataError&) {
    return false;
  }
}

std::size_t record_start(const std::string& bytes) {
  const std::size_t at = bytes.rfind("SUREFIT\n");
  EXPECT_NE(at, std::string::npos);
  return at;
}

TEST(CheckpointDamage, EveryBitOfTheRecord) {
  std::string bytes = good_file(20);
  ASSERT_TRUE(accepted(bytes));
  for (std::size_t at = record_start(bytes); at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      ASSERT_FALSE(accepted(bytes)) << "bit " << bit << " of byte " << at;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
    }
  }
}

TEST(CheckpointDamage, EveryByteOfTheHeader) {
  std::string bytes = good_file(20);
  const std::size_t data = bytes.find('}', bytes.find("__surefit__")) + 2;
  for (std::size_t at = 0; at < data; ++at) {
    for (const char mask : {'\x01', '\x80', '\x20', '\xff'}) {
      bytes[at] = static_cast<char>(bytes[at] ^ mask);
      ASSERT_FALSE(accepted(bytes)) << "byte " << at;
      bytes[at] = static_cast<char>(bytes[at] ^ mask);
    }
  }
}

TEST(CheckpointDamage, AHundredThousandFlipsInThePayload) {
  std::string bytes = good_file(20);
  std::mt19937 generator(4);
  const std::size_t end = record_start(bytes);
  for (int i = 0; i < 100000; ++i) {
    const std::size_t at = generator() % end;
    const auto mask = static_cast<char>(1 << generator() % 8);
    bytes[at] = static_cast<char>(bytes[at] ^ mask);
    ASSERT_FALSE(accepted(bytes)) << "byte " << at << " mask " << int{mask};
    bytes[at] = static_cast<char>(bytes[at] ^ mask);
  }
}

TEST(CheckpointDamage, EveryTruncationAndExtension) {
  const std::string bytes = good_file(20);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    ASSERT_FALSE(accepted(bytes.substr(0, size))) << size;
  EXPECT_FALSE(accepted(bytes + '\0'));
  EXPECT_FALSE(accepted(bytes + bytes));
}

// Each part whole, but of two files.
TEST(CheckpointDamage, PartsOfTwoFiles) {
  const std::string a = good_file(20), b = good_file(30);
  ASSERT_EQ(a.size(), b.size());
  const std::size_t record = record_start(a);
  EXPECT_FALSE(accepted(a.substr(0, record) + b.substr(record)));
  EXPECT_FALSE(accepted(b.substr(0, record) + a.substr(record)));
  for (std::size_t at = 512; at < record; at += 512)
    EXPECT_FALSE(accepted(a.substr(0, at) + b.substr(at))) << at;
}

TEST(CheckpointDamage, FallsBackAndSaysWhy) {
  ModelEnv env;
  for (const std::uint64_t step : {10, 20, 30}) {
    TestSource source(step);
    write_checkpoint(env, "c/" + generation_name(step),
                     {.tensors = test_tensors(), .step = step, .state = test_state(step)}, source);
  }
  ModelEnv::Files files = env.files();
  std::string& newest = files.at("c/step-00000030.safetensors");
  newest[record_start(newest) - 5] ^= 1;
  files.at(kPath).resize(1000);
  ModelEnv disk(files);
  const FoundCheckpoint found = find_newest(disk, "c");
  ASSERT_TRUE(found.file);
  EXPECT_EQ(found.file->step(), 10u);
  ASSERT_EQ(found.skipped.size(), 2u);
  EXPECT_EQ(found.skipped[0].path, "c/step-00000030.safetensors");
  EXPECT_NE(found.skipped[0].reason.find("the hash of 'optimizer/m/conv2d/kernel' is wrong"),
            std::string::npos)
      << found.skipped[0].reason;
}

}  // namespace
}  // namespace surefit
