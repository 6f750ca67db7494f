// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "surefit/image.hpp"

#include "data/support.hpp"

namespace surefit::data {
namespace {

using Values = std::vector<std::int64_t>;

Values values(const Dataset& dataset, std::uint64_t epoch = 0, int threads = 1,
              std::size_t component = 0) {
  Values all;
  for (DatasetIterator it(dataset, {.seed = 3, .epoch = epoch, .threads = threads});
       it != dataset.end(); ++it) {
    for (const std::int64_t value : (*it)[component].values<std::int64_t>()) all.push_back(value);
  }
  return all;
}

// Counts to `count`, one int64 at a time.
Dataset counter(std::int64_t count) {
  return Dataset::from_generator(
      GeneratorFactory([count] {
        return Generator([count, next = std::int64_t{0}](Sample& sample) mutable {
          if (next == count) return false;
          sample[0].assign_scalar(next++);
          return true;
        });
      }),
      {{DType::kInt64, {}}});
}

TEST(Stream, VerbsBehaveAsOnIndexedSources) {
  const auto odd = [](const Sample& sample) {
    return sample[0].values<std::int64_t>()[0] % 2 == 1;
  };
  EXPECT_EQ(values(counter(5)), (Values{0, 1, 2, 3, 4}));
  EXPECT_EQ(values(counter(5)), (Values{0, 1, 2, 3, 4})) << "every pass starts anew";
  EXPECT_EQ(values(counter(9).filter(odd)), (Values{1, 3, 5, 7}));
  EXPECT_EQ(values(Dataset::range(9).filter(odd)), (Values{1, 3, 5, 7}));
  EXPECT_EQ(values(Dataset::range(200).filter(odd), 0, 4),
            values(Dataset::range(200).filter(odd), 0, 1));
  EXPECT_EQ(values(counter(9).skip(2).take(3)), (Values{2, 3, 4}));
  EXPECT_EQ(values(counter(2).repeat(2)), (Values{0, 1, 0, 1}));
  EXPECT_EQ(values(counter(2).repeat().take(5)), (Values{0, 1, 0, 1, 0}));
  EXPECT_EQ(values(counter(0).repeat()), Values{});
  EXPECT_EQ(values(counter(5).batch(2).skip(1)), (Values{2, 3, 4}));
  EXPECT_EQ(values(counter(5).batch(2, {.drop_remainder = true})), (Values{0, 1, 2, 3}));
  EXPECT_EQ(values(counter(3).concatenate(Dataset::range(2))), (Values{0, 1, 2, 0, 1}));
  EXPECT_EQ(values(Dataset::range(3).concatenate(Dataset::range(2)).batch(4)),
            (Values{0, 1, 2, 0, 1}));
  EXPECT_EQ(values(Dataset::zip(Dataset::range(5), counter(3)), 0, 1, 1), (Values{0, 1, 2}));
  EXPECT_EQ(values(Dataset::zip(Dataset::range(5), Dataset::range(9).skip(4)).batch(2), 0, 2, 1),
            (Values{4, 5, 6, 7, 8}));
  EXPECT_EQ(values(counter(3).enumerate(10)), (Values{10, 11, 12}));
  EXPECT_EQ(values(Dataset::range(5).skip(2).enumerate().batch(2), 0, 1, 1), (Values{2, 3, 4}));
  EXPECT_FALSE(counter(5).cardinality().has_value());
}

// tf.data's documented example: range(1, 6) interleaved with cycle_length 2, block_length 4 over
// six copies each.
TEST(Stream, InterleaveTakesTurnsAsDocumentedByTensorFlow) {
  const Dataset dataset = Dataset::range(5).interleave(
      [](const Sample& sample) {
        Tensor copies(Shape{6}, DType::kInt64);
        std::fill(copies.values<std::int64_t>().begin(), copies.values<std::int64_t>().end(),
                  sample[0].values<std::int64_t>()[0] + 1);
        return Dataset::from_tensor_slices(std::move(copies));
      },
      {.cycle_length = 2, .block_length = 4});
  EXPECT_EQ(values(dataset), (Values{1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3,
                                     3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5}));
}

TEST(Stream, ShuffleKeepsABufferOfElements) {
  const Values shuffled = values(counter(500).shuffle(20));
  EXPECT_NE(shuffled, values(counter(500)));
  EXPECT_NE(shuffled, values(counter(500).shuffle(20), 1));
  for (std::size_t i = 0; i < shuffled.size(); ++i)
    ASSERT_LT(shuffled[i], static_cast<std::int64_t>(i + 20));
  Values sorted = shuffled;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, values(counter(500)));
  EXPECT_EQ(values(Dataset::range(5).repeat().shuffle(3).take(100)).size(), 100u);
}

TEST(Stream, AShuffleBufferBeyondTheBudgetIsRefused) {
  const Dataset dataset = counter(100'000).shuffle(50'000).batch(10);
  ThreadPool pool(1);
  BatchReader reader(dataset, {.input = {.budget_bytes = 1 << 20}});
  Room room(reader);
  const std::string text = error_of<SystemError>([&] { room.next(reader, pool); });
  EXPECT_NE(text.find("budget"), std::string::npos) << text;
  EXPECT_LE(reader.meter().peak_bytes(), 1u << 20);
}

TEST(Stream, GeneratorsAreHeldToWhatTheyDeclared) {
  const auto bad = [](DType dtype, Dims dims, std::size_t components) {
    return error_of<DataError>([&] {
      values(Dataset::from_generator(GeneratorFactory([=] {
                                       return Generator([=](Sample& sample) {
                                         sample.resize(components);
                                         for (std::size_t i = 0; i < components; ++i)
                                           sample[i].replace(dtype, dims);
                                         return true;
                                       });
                                     }),
                                     {{DType::kInt64, {-1, 3}}}));
    });
  };
  EXPECT_NE(
      bad(DType::kFloat32, {2, 3}, 1)
          .find("element 0 is not as declared; expected [int64 (None, 3)]; got [float32 (2, 3)]"),
      std::string::npos);
  bad(DType::kInt64, {2, 4}, 1);
  bad(DType::kInt64, {2, 3}, 2);
  bad(DType::kInt64, {3}, 1);
  const std::string thrown = error_of<DataError>([] {
    values(Dataset::from_generator(
        GeneratorFactory(
            [] { return Generator([](Sample&) -> bool { throw std::runtime_error("broke"); }); }),
        {{DType::kInt64, {}}}));
  });
  EXPECT_NE(thrown.find("[from_generator] sample 0: broke"), std::string::npos) << thrown;
}

// Seed 004's shape: the generator yields whole batches.
TEST(Stream, GeneratorsOfBatchesFeedATrainer) {
  const Dataset dataset =
      Dataset::from_generator(std::function<Dataset::TensorGenerator()>([] {
                                return Dataset::TensorGenerator(
                                    [step = 0]() mutable -> std::optional<std::vector<Tensor>> {
                                      if (step == 3) return std::nullopt;
                                      const std::int64_t rows = step++ == 2 ? 1 : 4;
                                      std::vector<Tensor> batch;
                                      batch.emplace_back(Shape{rows, 2, 2, 1});
                                      batch.emplace_back(Shape{rows}, DType::kInt32);
                                      return batch;
                                    });
                              }),
                              {{DType::kFloat32, {-1, 2, 2, 1}}, {DType::kInt32, {-1}}})
          .prefetch(AUTOTUNE);
  ThreadPool pool(1);
  BatchReader reader(dataset, {});
  EXPECT_EQ(to_string(reader.sample_spec()), "[float32 (2, 2, 1), int32 ()]");
  const std::vector<Delivered> batches = drain(reader, pool, 2, 4);
  ASSERT_EQ(batches.size(), 6u);
  EXPECT_EQ(batches[2].ids.size(), 1u);
  Room small(reader, 2);
  reader.seek(0, 0);
  error_of<DataError>([&] { small.next(reader, pool); });
}

TEST(Stream, ResumesAtEveryStepByReplay) {
  const auto even = [](const Sample& sample) { return sample.index() % 2 == 0; };
  const auto noisy = [](Sample& sample, Random& random) {
    sample[0].assign_scalar(sample[0].values<std::int64_t>()[0] * 1000 + random.below(1000));
  };
  const std::vector<Dataset> matrix = {
      counter(23).batch(4),
      counter(40).filter(even).map(noisy).batch(3),
      Dataset::range(40).filter(even).batch(3),
      counter(30).shuffle(7).map(noisy).batch(4, {.drop_remainder = true}),
      counter(10).repeat(3).shuffle(5).batch(4).skip(1).take(5),
      counter(20).cache().shuffle(6).batch(3),
      Dataset::zip(counter(20), Dataset::range(50).shuffle(50)).batch(3),
      counter(7).concatenate(Dataset::range(9)).batch(3)};
  for (const Dataset& dataset : matrix) {
    SCOPED_TRACE(dataset.describe());
    const std::vector<Delivered> expected = run(dataset, 1);
    EXPECT_EQ(run(dataset, 3), expected);
    std::vector<std::uint64_t> lengths;  // batches per epoch
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      ThreadPool pool(1);
      BatchReader reader(dataset, {.seed = 5});
      reader.seek(epoch, 0);
      lengths.push_back(drain(reader, pool, epoch + 1).size());
    }
    for (std::uint64_t step = 0; step <= expected.size(); ++step) {
      ThreadPool pool(2);
      BatchReader reader(dataset, {.seed = 77, .threads = 2});
      State state = reader.state();
      state.seed = 5;
      state.epoch = step > lengths[0] ? 1 : 0;
      state.position = step > lengths[0] ? step - lengths[0] : step;
      reader.restore(State::parse(state.serialise()));
      ASSERT_EQ(drain(reader, pool, 2),
                std::vector<Delivered>(expected.begin() + static_cast<std::ptrdiff_t>(step),
                                       expected.end()))
          << "step " << step;
    }
  }
}

}  // namespace
}  // namespace surefit::data
