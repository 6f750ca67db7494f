// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <fstream>

#include "surefit/image.hpp"

#include "data/files_support.hpp"
#include "data/support.hpp"

namespace surefit::data {
namespace {

struct Counted {
  std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);
  MapFunction function() const {
    return [calls = calls](Sample& sample) {
      ++*calls;
      sample[0].mutable_values<std::uint8_t>()[0] = 77;
    };
  }
};
const RandomMapFunction kNoise = [](Sample& sample, Random& random) {
  sample[0].mutable_values<std::uint8_t>()[1] = static_cast<std::uint8_t>(random.below(256));
};

// Samples prepared before the first batch, to find out types and bytes.
constexpr int kTrials = 20;

TEST(Cache, OnOrOffTheBatchesAreTheSame) {
  const std::vector<Delivered> expected =
      run(pictures(50).map(Counted().function()).shuffle(50).map(kNoise).batch(8), 1, 3);
  for (const int threads : {1, 2, 5}) {
    const Counted counted;
    EXPECT_EQ(run(pictures(50).map(counted.function()).cache().shuffle(50).map(kNoise).batch(8),
                  threads, 3),
              expected);
    EXPECT_LE(*counted.calls, 50 + kTrials) << "once each";
    for (const CacheMode mode : {CacheMode::kAuto, CacheMode::kMemory}) {
      const Counted again;
      const Dataset dataset = pictures(50).map(again.function()).shuffle(50).map(kNoise).batch(8);
      ThreadPool pool(threads);
      BatchReader reader(dataset, {.seed = 5, .threads = threads, .input = {.cache = mode}});
      EXPECT_EQ(drain(reader, pool, 3), expected);
      EXPECT_LE(*again.calls, 50 + kTrials + threads);
    }
  }
}

TEST(Cache, WhatDoesNotFitIsReadAgain) {
  const std::vector<Delivered> expected =
      run(pictures(50).map(Counted().function()).batch(8), 1, 3);
  const Counted counted;
  const Dataset dataset =
      pictures(50).map(counted.function()).cache({.budget_bytes = 8000}).batch(8);
  EXPECT_EQ(run(dataset, 2, 3), expected);
  EXPECT_GT(*counted.calls, 60);
  EXPECT_LT(*counted.calls, 140);
}

TEST(Cache, FreezesWhatIsRandomBelow) {
  const std::vector<Delivered> batches =
      run(pictures(16).shuffle(16).map(kNoise).cache().batch(16), 1, 2);
  EXPECT_EQ(batches[0], batches[1]);
  // Neither finding out the types nor another run's seed may leave anything in it.
  const Dataset shared = pictures(16).shuffle(16).map(kNoise).cache().map([](Sample&) {}).batch(16);
  const std::vector<Delivered> alone =
      run(pictures(16).shuffle(16).map(kNoise).cache().batch(16), 1, 2, 6);
  (void)shared.element_spec();
  EXPECT_EQ(run(shared, 1, 2, 5), batches);
  EXPECT_EQ(run(shared, 1, 2, 6), alone);
  const std::vector<Delivered> above = run(pictures(16).cache().map(kNoise).batch(16), 1, 2);
  EXPECT_NE(above[0], above[1]);
}

TEST(Cache, FilesSurviveAndAreUsedAgain) {
  TemporaryFolder folder;
  fill_folder(folder, 20);
  const std::string file = folder.path() + "/samples.cache";
  const Dataset dataset =
      image_dataset_from_directory(folder.path(), {.batch_size = 6, .height = 8, .width = 8});
  const std::vector<Delivered> expected = run(dataset, 1, 2);
  const auto with_file = [&](const Dataset& source) {
    ThreadPool pool(2);
    BatchReader reader(
        source,
        {.seed = 5, .threads = 2, .input = {.cache = CacheMode::kFile, .cache_file = file}});
    std::vector<Delivered> batches = drain(reader, pool, 2);
    std::uint64_t decoded = 0;
    for (const BatchReader::Step& step : reader.statistics().steps) decoded += step.calls;
    return std::pair(batches, decoded);
  };
  EXPECT_EQ(with_file(dataset), std::pair(expected, std::uint64_t{20}));
  EXPECT_EQ(with_file(dataset), std::pair(expected, std::uint64_t{0}));
  // A torn write: some bytes in the middle are wrong, some records missing.
  {
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(64 + 3 * 250);
    bytes << "torn";
  }
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 100);
  EXPECT_EQ(with_file(dataset), std::pair(expected, std::uint64_t{2}));
  // Another pipeline may not use it.
  const Dataset other =
      image_dataset_from_directory(folder.path(), {.batch_size = 6, .height = 9, .width = 8});
  const std::string text = error_of<DataError>([&] { with_file(other); });
  EXPECT_NE(text.find("belongs to other data"), std::string::npos) << text;
}

TEST(Cache, RefusesWhenAskedForEverythingAndItDoesNotFit) {
  const Dataset dataset = pictures(500).map(Counted().function()).batch(8);
  const std::string text = error_of<ConfigError>([&] {
    BatchReader(dataset, {.input = {.cache = CacheMode::kMemory, .budget_bytes = 100'000}});
  });
  EXPECT_NE(text.find("500 samples need"), std::string::npos) << text;
  error_of<ConfigError>([] {
    pictures(3)
        .map([](Sample& sample) {
          sample[0].replace(DType::kUInt8, {static_cast<std::int64_t>(sample.index())});
        })
        .filter([](const Sample&) { return true; })
        .cache({.file = "/tmp/never"});
  });
}

TEST(Explain, NamesTheBottleneckAndTheChoices) {
  TemporaryFolder folder;
  fill_folder(folder, 20);
  const Dataset dataset =
      image_dataset_from_directory(folder.path(), {.batch_size = {}, .height = 32, .width = 32})
          .map(transform::random_flip())
          .batch(5)
          .prefetch(AUTOTUNE);
  ThreadPool pool(2);
  BatchReader reader(dataset, {.threads = 2, .input = {.cache = CacheMode::kAuto}});
  EXPECT_NE(reader.explain().find("nothing measured"), std::string::npos);
  drain(reader, pool, 2);
  const std::string text = reader.explain();
  EXPECT_NE(text.find("bottleneck: load_picture(32, 32"), std::string::npos) << text;
  EXPECT_NE(text.find("run for 20 of 40 samples"), std::string::npos) << text;
  EXPECT_NE(text.find("cache:      after load_picture"), std::string::npos) << text;
  EXPECT_NE(text.find("20 of 20 samples"), std::string::npos) << text;
  const BatchReader::Statistics statistics = reader.statistics();
  EXPECT_EQ(statistics.samples, 40u);
  EXPECT_GT(statistics.stall_share(), 0);
  EXPECT_LE(statistics.stall_share(), 1.0001);
}

}  // namespace
}  // namespace surefit::data
