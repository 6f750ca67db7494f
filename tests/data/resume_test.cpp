// SPDX-License-Identifier: Apache-2.0
#include "surefit/image.hpp"

#include "base/clock.hpp"
#include "data/files_support.hpp"
#include "data/support.hpp"

namespace surefit::data {
namespace {

struct Case {
  std::string name;
  Dataset dataset;
};

RandomMapFunction noise() {
  return [](Sample& sample, Random& random) {
    for (std::uint8_t& value : sample[0].mutable_values<std::uint8_t>()) {
      value = static_cast<std::uint8_t>(value ^ random.below(256));
    }
  };
}

std::vector<Case> matrix(const TemporaryFolder& folder) {
  if (!std::filesystem::exists(folder.path() + "/cats")) fill_folder(folder, 14);
  const Dataset files =
      image_dataset_from_directory(folder.path(), {.batch_size = {}, .height = 8, .width = 9});
  const auto odd = [](const Sample& sample) { return sample.index() % 2 == 1; };
  const auto brighten = [](Sample& sample) {
    for (std::uint8_t& value : sample[0].mutable_values<std::uint8_t>())
      value = static_cast<std::uint8_t>(value + 1);
  };
  return {
      {"plain", pictures(23).batch(4)},
      {"exact", pictures(24).batch(4)},
      {"drop", pictures(23).batch(4, {.drop_remainder = true})},
      {"shuffled", pictures(300).shuffle(300).batch(32)},
      {"small table", pictures(23).shuffle(100).batch(4).prefetch(3)},
      {"window", pictures(100).shuffle(10).map(brighten).batch(7)},
      {"window after map", pictures(100).map(noise()).shuffle(17).batch(7).prefetch(AUTOTUNE)},
      {"augmented", pictures(40).shuffle(40).map(noise()).map(brighten, 1).batch(8)},
      {"batches shuffled", pictures(40).batch(4).shuffle(10)},
      {"rounds", pictures(13).shuffle(13).repeat(3).batch(4)},
      {"round batches", pictures(13).shuffle(5).batch(4).repeat(2)},
      {"cut", pictures(50).skip(3).take(31).shuffle(31).batch(5).skip(1).take(4)},
      {"map on batches", pictures(30).shuffle(30).batch(4).map(noise())},
      {"folder", files.batch(4).prefetch(AUTOTUNE)},
      {"folder augmented", files.map(transform::random_flip())
                               .map(transform::random_pad_crop(2))
                               .map(transform::rescale(1 / 255.0f))
                               .batch(4)},
      {"folder cached", files.cache().map(transform::random_rotation(0.1f)).batch(5)},
      {"filter", pictures(40).shuffle(40).filter(odd).map(noise()).batch(3)},
      {"stream shuffle", pictures(40).filter(odd).shuffle(7).batch(3)},
      {"zip", Dataset::zip(pictures(20).shuffle(20), Dataset::range(30)).batch(4)},
      {"concatenate", pictures(9).concatenate(pictures(8)).shuffle(17).batch(4)},
      {"enumerate", pictures(20).shuffle(20).enumerate(5).batch(4)},
  };
}

TEST(Resume, EveryStepOfTwoEpochsGivesTheSameBatches) {
  const TemporaryFolder folder;
  for (const Case& test : matrix(folder)) {
    SCOPED_TRACE(test.name);
    ThreadPool pool(2);
    BatchReader whole(test.dataset, {.seed = 11, .threads = 2});
    Room room(whole);
    std::vector<std::string> states{whole.state().serialise()};
    std::vector<Delivered> expected;
    while (whole.epoch() < 2) {
      Delivered batch = room.next(whole, pool);
      if (batch.ids.empty()) {
        whole.next_epoch();
        continue;
      }
      expected.push_back(std::move(batch));
      states.push_back(whole.state().serialise());
    }
    ASSERT_GT(expected.size(), 2u);
    for (std::size_t step = 0; step < states.size(); ++step) {
      ASSERT_LE(states[step].size(), State::kMaxBytes);
      BatchReader resumed(test.dataset, {.seed = 999, .threads = 1});
      resumed.restore(State::parse(states[step]));
      ThreadPool other(1);
      const std::vector<Delivered> rest = drain(resumed, other, 2);
      ASSERT_EQ(rest, std::vector<Delivered>(expected.begin() + static_cast<std::ptrdiff_t>(step),
                                             expected.end()))
          << "at step " << step;
    }
  }
}

TEST(Resume, BatchesAreTheSameForOneToEightThreads) {
  const TemporaryFolder folder;
  for (const Case& test : matrix(folder)) {
    const std::vector<Delivered> expected = run(test.dataset, 1);
    for (int threads = 2; threads <= 8; ++threads) {
      ASSERT_EQ(run(test.dataset, threads), expected)
          << test.name << " with " << threads << " threads";
    }
    // Negative control: the hash does see the seed.
    if (test.name == "augmented") {
      EXPECT_NE(run(test.dataset, 1, 2, 6), expected);
    }
  }
}

TEST(Resume, AugmentationDiffersBetweenEpochsAlsoThroughRepeat) {
  const std::vector<Delivered> batches = run(pictures(8).map(noise()).batch(8), 1, 2);
  EXPECT_NE(batches[0].hash, batches[1].hash);
  const std::vector<Delivered> repeated = run(pictures(8).repeat(2).map(noise()).batch(8), 1, 1);
  ASSERT_EQ(repeated.size(), 2u);
  EXPECT_NE(repeated[0].hash, repeated[1].hash);
}

TEST(Resume, ChangedSourcesAndVerbsAreNamed) {
  const State then = BatchReader(pictures(20).shuffle(20).batch(4), {}).state();
  {
    BatchReader same(pictures(20).shuffle(20).batch(4).prefetch(8), {});
    EXPECT_NO_THROW(same.restore(then));
  }
  {
    Tensor x = Tensor(Shape{20, 4, 3, 2}, DType::kUInt8);
    BatchReader other(Dataset::from_tensor_slices(std::move(x), Tensor(Shape{20}, DType::kInt64))
                          .shuffle(20)
                          .batch(4),
                      {});
    const std::string text = error_of<DataError>([&] { other.restore(then); });
    EXPECT_NE(text.find("source 1 of 1 changed"), std::string::npos) << text;
    EXPECT_NE(text.find("arrays(20)"), std::string::npos) << text;
  }
  {
    BatchReader other(pictures(20).shuffle(20).batch(5), {});
    const std::string text = error_of<ConfigError>([&] { other.restore(then); });
    EXPECT_NE(text.find("batch(4)"), std::string::npos) << text;
    EXPECT_NE(text.find("batch(5)"), std::string::npos) << text;
  }
}

TEST(Resume, AChangedFolderIsNamed) {
  TemporaryFolder folder;
  fill_folder(folder, 10);
  const auto reader = [&] {
    return std::make_unique<BatchReader>(
        image_dataset_from_directory(folder.path(), {.batch_size = 4, .height = 8, .width = 8}),
        ReaderOptions{});
  };
  const State then = reader()->state();
  EXPECT_NO_THROW(reader()->restore(then));
  folder.write("cats/1000.png", png(20, 25, 99));  // another picture under an old name
  const std::string text = error_of<DataError>([&] { reader()->restore(then); });
  EXPECT_NE(text.find("changed since the checkpoint"), std::string::npos) << text;
  EXPECT_NE(text.find("folder(" + std::filesystem::path(folder.path()).filename().string()),
            std::string::npos)
      << text;
}

TEST(Resume, StatesThatAreNotStatesAreRefused) {
  const std::string good = BatchReader(pictures(20).batch(4), {}).state().serialise();
  EXPECT_EQ(State::parse(good).serialise(), good);
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_THROW(State::parse(std::string_view(good).substr(0, length)), DataError);
  }
  for (const char* text : {"[]", "null", "{\"format\":1}", "{\"format\":2}", "{\"format\":-1}"}) {
    EXPECT_THROW(State::parse(text), DataError) << text;
  }
  std::string wrong = good;
  wrong.replace(wrong.find("\"position\":0"), 12, "\"position\":\"\"");
  EXPECT_THROW(State::parse(wrong), DataError);
}

TEST(Resume, LongPipelinesStillFitTheState) {
  Dataset dataset = pictures(20);
  for (int i = 0; i < 200; ++i)
    dataset = dataset.map([](Sample&) {}, {.name = "a rather long name for a map"});
  EXPECT_LE(BatchReader(dataset.batch(2), {}).state().serialise().size(), State::kMaxBytes);
}

TEST(Resume, RestoringAnIndexedSourceTakesNoTime) {
  const Dataset dataset = Dataset::range(50'000'000).shuffle(50'000'000).batch(32);
  State state = BatchReader(dataset, {}).state();
  state.position = 1'500'000;
  const double start = monotonic_seconds();
  BatchReader reader(dataset, {});
  reader.restore(state);
  ThreadPool pool(1);
  Room room(reader);
  EXPECT_EQ(room.next(reader, pool).ids.size(), 32u);
  EXPECT_LT(monotonic_seconds() - start, 0.1);
}

}  // namespace
}  // namespace surefit::data
