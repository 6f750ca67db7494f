// SPDX-License-Identifier: Apache-2.0
// After the first batch of an indexable pipeline nothing is allocated. Every operator new of this
// binary is counted.
#include <atomic>
#include <cstdlib>
#include <new>

#include "data/support.hpp"

namespace {
std::atomic<std::uint64_t> g_allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

__attribute__((noinline)) void* operator new(std::size_t bytes) {
  return counted(bytes == 0 ? 1 : bytes, 16);
}
__attribute__((noinline)) void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
__attribute__((noinline)) void operator delete(void* memory) noexcept {
  std::free(memory);
}
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
__attribute__((noinline)) void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
__attribute__((noinline)) void operator delete(void* memory, std::size_t,
                                               std::align_val_t) noexcept {
  std::free(memory);
}

namespace surefit::data {
namespace {

std::uint64_t allocations_after_first_batch(const Dataset& dataset) {
  ThreadPool pool(2);
  BatchReader reader(dataset, {.seed = 1, .threads = 2});
  Room room(reader);
  std::array<std::uint64_t, 8> ids{};
  // Two batches and one of the next epoch, so that both threads have met their first sample.
  for (int i = 0; i < 20; ++i) reader.fill(room.slots(), ids, pool);
  reader.seek(1, 0);
  reader.fill(room.slots(), ids, pool);
  const std::uint64_t before = g_allocations.load();
  for (int epoch = 1; epoch < 4; ++epoch) {
    while (reader.fill(room.slots(), ids, pool) > 0) reader.read_ahead();
    reader.next_epoch();
  }
  return g_allocations.load() - before;
}

TEST(Allocation, NoneAfterTheFirstBatches) {
  const auto map = [](Sample& sample) {
    sample[0].mutable_values<std::uint8_t>()[0] = 1;
    const Field::Replaced storage = sample[0].replace(DType::kFloat32, {4, 3, 2});
    std::fill(storage.bytes.begin(), storage.bytes.end(), std::byte{0});
  };
  EXPECT_EQ(allocations_after_first_batch(pictures(200).shuffle(200).batch(8)), 0u);
  EXPECT_EQ(allocations_after_first_batch(
                pictures(300).shuffle(300).map(map).batch(8).prefetch(AUTOTUNE)),
            0u);
  EXPECT_EQ(allocations_after_first_batch(pictures(300).repeat(2).shuffle(20).map(map).batch(8)),
            0u);
  // Negative control: a map that allocates is seen.
  EXPECT_GT(allocations_after_first_batch(pictures(40)
                                              .map([](Sample& sample) {
                                                sample[0].assign(Tensor(Shape{4, 3, 2}));
                                              })
                                              .batch(8)),
            0u);
}

}  // namespace
}  // namespace surefit::data
