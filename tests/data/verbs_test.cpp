// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "data/support.hpp"

namespace surefit::data {
namespace {

std::vector<std::int64_t> values(const Dataset& dataset, std::uint64_t epoch = 0) {
  std::vector<std::int64_t> all;
  for (DatasetIterator it(dataset, {.seed = 3, .epoch = epoch}); it != dataset.end(); ++it) {
    for (const std::int64_t value : (*it)[0].values<std::int64_t>()) all.push_back(value);
  }
  return all;
}
using Values = std::vector<std::int64_t>;

TEST(Verbs, TakeSkipRepeatBatchCompose) {
  EXPECT_EQ(values(Dataset::range(5)), (Values{0, 1, 2, 3, 4}));
  EXPECT_EQ(values(Dataset::range(5).take(2)), (Values{0, 1}));
  EXPECT_EQ(values(Dataset::range(5).take(99)), (Values{0, 1, 2, 3, 4}));
  EXPECT_EQ(values(Dataset::range(5).skip(3)), (Values{3, 4}));
  EXPECT_EQ(values(Dataset::range(5).skip(99)), Values{});
  EXPECT_EQ(values(Dataset::range(3).repeat(2)), (Values{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(values(Dataset::range(3).repeat().take(7)), (Values{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(values(Dataset::range(5).batch(2)), (Values{0, 1, 2, 3, 4}));
  EXPECT_EQ(values(Dataset::range(5).batch(2, {.drop_remainder = true})), (Values{0, 1, 2, 3}));
  EXPECT_EQ(values(Dataset::range(5).batch(2).skip(1).take(1)), (Values{2, 3}));
  EXPECT_EQ(values(Dataset::range(5).batch(2).repeat(2)), (Values{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  EXPECT_EQ(values(Dataset::range(4).batch(2).batch(2)), (Values{0, 1, 2, 3}));
  EXPECT_EQ(values(Dataset::range(0).repeat()), Values{});
  EXPECT_EQ(values(Dataset::range(0).batch(4)), Values{});
}

TEST(Verbs, CardinalityIsKnownBeforeRunning) {
  EXPECT_EQ(Dataset::range(10).batch(3).cardinality(), 4u);
  EXPECT_EQ(Dataset::range(10).batch(3, {.drop_remainder = true}).cardinality(), 3u);
  EXPECT_EQ(Dataset::range(10).repeat().batch(3).cardinality(), kInfiniteCardinality);
  EXPECT_EQ(Dataset::range(10).skip(4).repeat(3).cardinality(), 18u);
}

TEST(Verbs, RepeatAfterShuffleGivesAnotherOrderEachRound) {
  const Values all = values(Dataset::range(50).shuffle(50).repeat(2));
  Values first(all.begin(), all.begin() + 50), second(all.begin() + 50, all.end());
  EXPECT_NE(first, second);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  EXPECT_EQ(first, values(Dataset::range(50)));
  EXPECT_EQ(second, values(Dataset::range(50)));
}

TEST(Verbs, SpecsDescribeElements) {
  const Dataset batches = pictures(10).batch(4);
  EXPECT_EQ(to_string(batches.element_spec()), "[uint8 (None, 4, 3, 2), int64 (None,)]");
  EXPECT_EQ(to_string(pictures(10).batch(4, {.drop_remainder = true}).element_spec()),
            "[uint8 (4, 4, 3, 2), int64 (4,)]");
  const Dataset mapped =
      pictures(10).map([](Sample& sample) { sample[0].replace(DType::kFloat32, {5}); });
  EXPECT_EQ(to_string(mapped.element_spec()), "[float32 (5,), int64 ()]");
  EXPECT_EQ(batches.prefetch(AUTOTUNE).describe(), "arrays(10) > batch(4) > prefetch(AUTOTUNE)");
}

TEST(Verbs, MapMayChangeValuesAndNeverTheSource) {
  const Dataset source = pictures(6);
  const Dataset doubled = source.map([](Sample& sample) {
    for (std::uint8_t& value : sample[0].mutable_values<std::uint8_t>()) value = 99;
  });
  for (const Element& element : doubled) EXPECT_EQ(element[0].values<std::uint8_t>()[5], 99);
  EXPECT_EQ((*source.begin())[0].values<std::uint8_t>()[5], 5);
}

TEST(Verbs, PicturesBecomeFloatsInTheSlot) {
  ThreadPool pool(2);
  BatchReader reader(pictures(5).batch(4), {.threads = 2});
  Room room(reader);
  EXPECT_EQ(room.next(reader, pool).ids, (std::vector<std::uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(room.floats(0)[24 + 3], 10.0f);
  EXPECT_EQ(room.next(reader, pool).ids, (std::vector<std::uint64_t>{4}));
  EXPECT_TRUE(room.next(reader, pool).ids.empty());
}

TEST(Verbs, ErrorsInMapsNameTheSample) {
  const Dataset broken = pictures(40).shuffle(40).map(
      [](Sample& sample) {
        if (sample.index() == 17) throw std::runtime_error("cannot stand seventeen");
      },
      {.name = "picky"});
  const std::string text = error_of<DataError>([&] { run(broken.batch(8), 2); });
  EXPECT_NE(text.find("[picky] sample 17: cannot stand seventeen"), std::string::npos) << text;
}

TEST(Verbs, MapWithOneCallAtATimeIsNeverConcurrent) {
  std::atomic<int> inside{0}, most{0};
  const Dataset dataset = Dataset::range(400).map(
      [&](Sample&) {
        most = std::max(most.load(), ++inside);
        for (int spin = 0; spin < 1000; ++spin) __builtin_ia32_pause();
        --inside;
      },
      1);
  run(dataset.batch(50), 4, 1);
  EXPECT_EQ(most.load(), 1);
}

TEST(Verbs, RaggedSamplesAreRefusedWithTheirNumber) {
  const Dataset ragged = Dataset::range(10).map(
      [](Sample& sample) { sample[0].replace(DType::kFloat32, {sample.index() == 6 ? 3 : 2}); });
  const std::string text = error_of<DataError>([&] { run(ragged.batch(5), 1); });
  EXPECT_NE(text.find("sample 6"), std::string::npos) << text;
  EXPECT_NE(text.find("expected float32 (2,); got float32 (3,)"), std::string::npos) << text;
}

TEST(Verbs, ImpossibleArgumentsAreRefused) {
  error_of<ConfigError>([] { Dataset::range(3).batch(0); });
  error_of<ConfigError>([] { Dataset::range(3).shuffle(0); });
  error_of<ConfigError>([] { Dataset::range(3).map(MapFunction{}); });
  error_of<ConfigError>([] { Dataset::range(3).map([](Sample&) {}, 0); });
  error_of<ConfigError>([] { Dataset::from_tensor_slices(Tensor(Shape{3}), Tensor(Shape{4})); });
  error_of<ConfigError>([] { BatchReader(Dataset::range(3), {}); });
  error_of<ConfigError>([] { (*Dataset::range(3).begin())[0].values<float>(); });
}

TEST(Verbs, LabelsThatDoNotFitAreRefused) {
  const Dataset wide = Dataset::range(4).map([](Sample& sample) {
    sample[0].assign_scalar(std::int64_t{1} << (sample.index() == 2 ? 40 : 3));
  });
  const std::string text = error_of<DataError>([&] { run(wide.batch(4)); });
  EXPECT_NE(text.find("sample 2"), std::string::npos) << text;
}

}  // namespace
}  // namespace surefit::data
