// SPDX-License-Identifier: Apache-2.0
// The bytes a pipeline says it will take, and that it keeps to them.
#include "surefit/image.hpp"

#include "data/files_support.hpp"
#include "data/support.hpp"

namespace surefit::data {
namespace {

Dataset folder_of(const TemporaryFolder& folder, std::int64_t side) {
  return image_dataset_from_directory(folder.path(),
                                      {.batch_size = 4, .height = side, .width = side});
}

TEST(Budget, IsKnownBeforeTheFirstBatchAndKept) {
  TemporaryFolder folder;
  fill_folder(folder, 24);
  for (const int workers : {1, 2, 4}) {
    ThreadPool pool(workers);
    BatchReader reader(folder_of(folder, 32),
                       {.threads = workers, .input = {.cache = CacheMode::kAuto}});
    const std::uint64_t planned = reader.planned_bytes();
    EXPECT_EQ(reader.meter().used_bytes(), 0u) << "nothing is taken by planning";
    drain(reader, pool, 2);
    EXPECT_EQ(reader.planned_bytes(), planned);
    EXPECT_LE(reader.memory_bytes(), planned);
    EXPECT_GT(reader.meter().peak_bytes() * 20, reader.meter().limit_bytes())
        << "the plan is of the size of what is used\n"
        << reader.explain();
  }
}

TEST(Budget, StatedOnceCoversEverything) {
  TemporaryFolder folder;
  fill_folder(folder, 24);
  const Dataset dataset = folder_of(folder, 32);
  const std::vector<Delivered> expected = run(dataset, 2);
  BatchReader whole(dataset, {.seed = 5, .threads = 2, .input = {.cache = CacheMode::kAuto}});
  const std::uint64_t least = whole.least_bytes();
  std::uint64_t source = 0;
  for (const LedgerEntry& entry : whole.buffers())
    source += entry.residence == Residence::kSource ? entry.bytes : 0;
  for (const std::uint64_t budget : {least, least + 20'000, least + 60'000, least + 10'000'000}) {
    ThreadPool pool(2);
    BatchReader reader(dataset, {.seed = 5, .threads = 2, .input = {.cache = CacheMode::kAuto}});
    reader.set_budget(budget);
    EXPECT_LE(reader.planned_bytes() - source, budget);
    EXPECT_EQ(drain(reader, pool, 2), expected) << "a budget changes no bits";
    EXPECT_LE(reader.memory_bytes(), budget);
  }
}

TEST(Budget, AnAutomaticCacheTakesNoMoreThanItIsGiven) {
  TemporaryFolder folder;
  fill_folder(folder, 24);
  const Dataset dataset = folder_of(folder, 32);
  const std::vector<Delivered> expected = run(dataset, 2);
  ThreadPool pool(2);
  BatchReader reader(dataset, {.seed = 5, .threads = 2, .input = {.cache = CacheMode::kAuto}});
  const std::uint64_t all = reader.planned_bytes();
  reader.limit_cache(30'000);
  EXPECT_LE(reader.planned_bytes(), all - 40'000);
  EXPECT_EQ(drain(reader, pool, 2), expected);
}

TEST(Budget, TheLargestPictureIsPlannedFor) {
  TemporaryFolder folder;
  fill_folder(folder, 40);
  folder.write("cats/zz.jpg", jpeg(900, 1200, 7));
  ThreadPool pool(2);
  BatchReader reader(folder_of(folder, 32), {.threads = 2});
  EXPECT_EQ(ids_of(drain(reader, pool, 1)).size(), 41u);
  EXPECT_LE(reader.meter().peak_bytes(), reader.meter().limit_bytes());
}

TEST(Budget, TooSmallIsSaidWithTheNumbers) {
  TemporaryFolder folder;
  fill_folder(folder, 8);
  ThreadPool pool(1);
  BatchReader reader(folder_of(folder, 32), {.input = {.budget_bytes = 10'000}});
  Room room(reader);
  const std::string text = error_of<SystemError>([&] { room.next(reader, pool); });
  EXPECT_NE(text.find("byte budget"), std::string::npos) << text;
  EXPECT_LE(reader.meter().peak_bytes(), 10'000u);
}

TEST(Budget, StreamsCountTheirBatchAndTheirShuffleBuffer) {
  const Dataset stream =
      pictures(200).filter([](const Sample& sample) { return sample.index() % 3 != 0; });
  for (const Dataset& dataset : {stream.batch(8), stream.shuffle(50).batch(8)}) {
    ThreadPool pool(2);
    BatchReader reader(dataset, {.threads = 2});
    drain(reader, pool, 2);
    EXPECT_LE(reader.memory_bytes(), reader.planned_bytes());
  }
  // Elements that are batches already, of an unknown number of rows.
  const Dataset batches =
      Dataset::from_generator(GeneratorFactory([] {
                                return Generator([n = 0](Sample& batch) mutable {
                                  batch[0].replace(DType::kFloat32, {64, 32, 32, 3});
                                  return n++ < 5;
                                });
                              }),
                              {{DType::kFloat32, {-1, 32, 32, 3}}});
  ThreadPool pool(1);
  BatchReader reader(batches, {});
  drain(reader, pool, 2, 64);
  EXPECT_LE(reader.memory_bytes(), reader.planned_bytes());
}

TEST(Budget, FewerWorkersThanThreadsGiveTheSameBits) {
  const Dataset dataset = pictures(100).shuffle(100).map(transform::rescale(0.5f)).batch(8);
  const std::vector<Delivered> expected = run(dataset, 1);
  for (const int workers : {1, 2, 3, 9}) {
    ThreadPool pool(4);
    BatchReader reader(dataset, {.seed = 5, .threads = 4, .input = {.workers = workers}});
    EXPECT_EQ(drain(reader, pool, 2), expected) << workers;
  }
}

}  // namespace
}  // namespace surefit::data
