// SPDX-License-Identifier: Apache-2.0
// After the first batch of an indexable pipeline nothing is allocated: every malloc of the process
// is counted, libjpeg's, libpng's and zlib's too.
#include <array>

#include "surefit/image.hpp"

#include "data/files_support.hpp"
#include "data/support.hpp"
#include "support/malloc_counter.hpp"

namespace surefit::data {
namespace {

long allocations_after_first_batch(const Dataset& dataset, InputOptions input = {},
                                   int threads = 2) {
  ThreadPool pool(threads);
  BatchReader reader(dataset, {.seed = 1, .threads = threads, .input = std::move(input)});
  Room room(reader);
  std::array<std::uint64_t, 8> ids{};
  reader.fill(room.slots(), ids, pool);
  reader.seek(1, 0);  // shuffles keep something for the epoch they are in and the next
  reader.fill(room.slots(), ids, pool);
  const long before = allocations.load();
  for (int epoch = 1; epoch < 4; ++epoch) {
    while (reader.fill(room.slots(), ids, pool) > 0) reader.read_ahead();
    reader.next_epoch();
  }
  return allocations.load() - before;
}

TEST(Allocation, NoneAfterTheFirstBatches) {
  if (!kCountsAllocations) GTEST_SKIP() << "a sanitizer's allocator cannot be counted";
  const auto map = [](Sample& sample) {
    sample[0].mutable_values<std::uint8_t>()[0] = 1;
    const Field::Replaced storage = sample[0].replace(DType::kFloat32, {4, 3, 2});
    std::fill(storage.bytes.begin(), storage.bytes.end(), std::byte{0});
  };
  EXPECT_EQ(allocations_after_first_batch(pictures(200).shuffle(200).batch(8)), 0);
  EXPECT_EQ(allocations_after_first_batch(
                pictures(300).shuffle(300).map(map).batch(8).prefetch(AUTOTUNE)),
            0);
  EXPECT_EQ(allocations_after_first_batch(pictures(300).repeat(2).shuffle(20).map(map).batch(8)),
            0);
  // Negative control: a map that allocates is seen.
  EXPECT_GT(allocations_after_first_batch(pictures(40)
                                              .map([](Sample& sample) {
                                                sample[0].assign(Tensor(Shape{4, 3, 2}));
                                              })
                                              .batch(8)),
            0);
}

TEST(Allocation, NoneForPicturesInFilesEither) {
  if (!kCountsAllocations) GTEST_SKIP() << "a sanitizer's allocator cannot be counted";
  const TemporaryFolder folder;
  fill_folder(folder, 40);
  folder.write("cats/large.jpg", jpeg(300, 400, 3));  // comes late in some order
  folder.write("dogs/interlaced.png", png(200, 300, 4));
  const Dataset files =
      image_dataset_from_directory(folder.path(), {.batch_size = {}, .height = 24, .width = 32});
  EXPECT_EQ(allocations_after_first_batch(files.batch(8).prefetch(1)), 0);
  EXPECT_EQ(allocations_after_first_batch(files.map(transform::random_flip())
                                              .map(transform::random_pad_crop(3))
                                              .map(transform::random_rotation(0.1f))
                                              .map(transform::rescale(1 / 255.0f))
                                              .batch(8)
                                              .prefetch(AUTOTUNE)),
            0);
  EXPECT_EQ(allocations_after_first_batch(files.batch(8), {.cache = CacheMode::kAuto}), 0);
  // Of so many threads some have nothing to do in the first batches.
  EXPECT_EQ(allocations_after_first_batch(files.batch(8), {.cache = CacheMode::kAuto}, 12), 0);
  EXPECT_EQ(allocations_after_first_batch(files.map(transform::random_contrast(0.2f))
                                              .map(transform::random_brightness(0.2f))
                                              .map(transform::random_translation(0.1f, 0.1f))
                                              .batch(8)),
            0);
}

}  // namespace
}  // namespace surefit::data
