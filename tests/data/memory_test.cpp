// SPDX-License-Identifier: Apache-2.0
// What the kernel charges, not what we think: a binary of its own, because a peak never goes down
// again.
#include "surefit/image.hpp"

#include "base/process_memory.hpp"
#include "data/files_support.hpp"
#include "data/support.hpp"

namespace surefit::data {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(Memory, AGeneratorRunForAHundredThousandBatchesStaysFlat) {
  const Dataset dataset =
      Dataset::from_generator(
          std::function<Dataset::TensorGenerator()>([] {
            return Dataset::TensorGenerator([]() -> std::optional<std::vector<Tensor>> {
              std::vector<Tensor> sample;
              sample.emplace_back(Shape{8, 8, 1});
              sample.emplace_back(Shape{}, DType::kInt32);
              return sample;
            });
          }),
          {{DType::kFloat32, {8, 8, 1}}, {DType::kInt32, {}}})
          .shuffle(100)
          .batch(4)
          .prefetch(AUTOTUNE);
  ThreadPool pool(1);
  BatchReader reader(dataset, {});
  Room room(reader);
  for (int batch = 0; batch < 2000; ++batch) room.next(reader, pool);
  const ProcessMemory before = read_process_memory();
  for (int batch = 0; batch < 100'000; ++batch) ASSERT_EQ(room.next(reader, pool).ids.size(), 4u);
  const ProcessMemory after = read_process_memory();
  EXPECT_LT(after.peak_bytes, before.peak_bytes + 256 * 1024);
  RecordProperty("growth_bytes", static_cast<int>(after.peak_bytes - before.peak_bytes));
}

TEST(Memory, NeverAboveBudgetForDataTenTimesLarger) {
  TemporaryFolder folder;
  constexpr int kCount = 170, kSide = 250;
  for (int i = 0; i < kCount; ++i)
    folder.write("a/" + std::to_string(i) + ".jpg", jpeg(kSide + 20, kSide + 40, i));
  const Dataset dataset = image_dataset_from_directory(
      folder.path(),
      {.batch_size = 4, .height = kSide, .width = kSide, .interpolation = {.antialias = true}});
  constexpr std::uint64_t kBudget = 3 * kMiB - kMiB / 8;
  static_assert(std::uint64_t{kCount} * kSide * kSide * 3 > 10 * kBudget);
  const std::vector<Delivered> expected = run(dataset, 2, 2);
  ThreadPool pool(2);
  BatchReader reader(
      dataset,
      {.seed = 5, .threads = 2, .input = {.cache = CacheMode::kAuto, .budget_bytes = kBudget}});
  Room room(reader);
  room.next(reader, pool);
  reader.seek(0, 0);
  const std::uint64_t before = read_process_memory().peak_bytes;
  EXPECT_EQ(drain(reader, pool, 2), expected);
  EXPECT_LE(reader.memory_bytes(), kBudget);
  EXPECT_LT(read_process_memory().peak_bytes, before + kBudget + kMiB);
  const std::string text = reader.explain();
  EXPECT_EQ(text.find("170 of 170"), std::string::npos) << "it cannot hold everything\n" << text;
}

}  // namespace
}  // namespace surefit::data
