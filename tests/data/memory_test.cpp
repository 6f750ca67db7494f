// SPDX-License-Identifier: Apache-2.0
// What the kernel charges, not what we think: a binary of its own, because a peak never goes down
// again.
#include <csignal>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "surefit/image.hpp"

#include "base/process_memory.hpp"
#include "data/files_support.hpp"
#include "data/support.hpp"

namespace surefit::data {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

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

// A memory cgroup (version 1) of its own for a child process; empty when the machine does not
// permit one.
class MemoryGroup {
 public:
  MemoryGroup() : path_("/sys/fs/cgroup/memory/surefit-data-test-" + std::to_string(::getpid())) {
    if (::mkdir(path_.c_str(), 0755) != 0) path_.clear();
  }
  ~MemoryGroup() {
    if (!path_.empty()) ::rmdir(path_.c_str());
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  bool usable() const { return !path_.empty(); }
  bool write(const char* file, std::uint64_t value) const {
    std::ofstream out(path_ + "/" + file);
    out << value << std::flush;
    return out.good();
  }

 private:
  std::string path_;
};

// Runs `work` in a child process that may hold `limit_bytes`; its wait status.
template <typename Work>
int run_limited(const MemoryGroup& group, std::uint64_t limit_bytes, const Work& work) {
  if (!group.write("memory.limit_in_bytes", limit_bytes)) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    const bool inside = group.write("cgroup.procs", static_cast<std::uint64_t>(::getpid()));
    ::_exit(inside && work() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(Memory, TheKernelAgreesWithTheBudget) {
  const MemoryGroup group;
  if (!group.usable()) GTEST_SKIP() << "no memory cgroup can be made here";
  if (kSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  const TemporaryFolder folder;
  constexpr int kCount = 300, kSide = 224;
  for (int i = 0; i < kCount; ++i)
    folder.write("a/" + std::to_string(i) + ".jpg", jpeg(kSide, kSide, i));
  const Dataset dataset = image_dataset_from_directory(
      folder.path(), {.batch_size = 4, .height = kSide, .width = kSide});
  constexpr std::uint64_t kBudget = 4 * kMiB, kBatch = 4 * kSide * kSide * 3 * 4;
  static_assert(std::uint64_t{kCount} * kSide * kSide * 3 > 10 * kBudget);
  // What a process of two threads needs for itself: its heap, stacks, page tables and kernel
  // memory.
  constexpr std::uint64_t kProcess = 6 * kMiB;
  const auto feed = [&](InputOptions input) {
    ThreadPool pool(2);
    BatchReader reader(dataset, {.seed = 5, .threads = 2, .input = std::move(input)});
    return drain(reader, pool, 2).size() == 2 * kCount / 4;
  };
  const std::uint64_t limit = kBudget + kBatch + kProcess;
  EXPECT_EQ(run_limited(group, limit,
                        [&] { return feed({.cache = CacheMode::kAuto, .budget_bytes = kBudget}); }),
            0);
  // Negative control: without the budget the same run is killed.
  const int status = run_limited(group, limit, [&] { return feed({.cache = CacheMode::kMemory}); });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

}  // namespace
}  // namespace surefit::data
