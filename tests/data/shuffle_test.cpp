// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "base/process_memory.hpp"
#include "data/support.hpp"

namespace surefit::data {
namespace {

std::vector<std::uint64_t> order(const Dataset& dataset, std::uint64_t epoch, std::uint64_t seed) {
  std::vector<std::uint64_t> ids;
  const std::uint64_t count = dataset.cardinality().value();
  for (std::uint64_t i = 0; i < count; ++i)
    ids.push_back(dataset.node()->locate({i, epoch}, seed).index);
  return ids;
}

// Chi-square over all orders of five, 119 degrees of freedom: below 193 with probability 0.99999.
double chi_square(const std::function<std::vector<std::uint64_t>(std::uint64_t)>& draw) {
  constexpr int kDraws = 24000;
  std::map<std::vector<std::uint64_t>, int> counts;
  for (std::uint64_t i = 0; i < kDraws; ++i) counts[draw(i)]++;
  EXPECT_EQ(counts.size(), 120u);
  double sum = 0;
  for (const auto& [ids, count] : counts) sum += (count - 200.0) * (count - 200.0) / 200.0;
  return sum;
}

TEST(Shuffle, OrdersOfFiveAreUniformOverSeedsAndOverEpochs) {
  const Dataset five = Dataset::range(5).shuffle(5);
  EXPECT_LT(chi_square([&](std::uint64_t i) { return order(five, 0, i); }), 193);
  EXPECT_LT(chi_square([&](std::uint64_t i) { return order(five, i, 7); }), 193);
  // Negative control: a shuffle that swaps only neighbours is far off.
  EXPECT_GT(chi_square([&](std::uint64_t i) {
              std::vector<std::uint64_t> ids = order(five, i, 7);
              if (ids[0] > ids[1]) std::swap(ids[0], ids[1]);
              if (i % 2 == 0) std::swap(ids[0], ids[1]);
              if (i % 7 == 0) std::sort(ids.begin(), ids.end());
              return ids;
            }),
            193);
}

TEST(Shuffle, EveryEpochIsAPermutation) {
  for (const std::uint64_t count : {1u, 2u, 37u, 256u, 257u, 1000u}) {
    for (const std::uint64_t buffer : {1u, 2u, 10u, 256u, 999u, 5000u}) {
      const Dataset dataset = Dataset::range(count).shuffle(buffer);
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
        std::vector<std::uint64_t> ids = order(dataset, epoch, 1);
        std::sort(ids.begin(), ids.end());
        for (std::uint64_t i = 0; i < count; ++i)
          ASSERT_EQ(ids[i], i) << count << " buffer " << buffer;
      }
    }
  }
}

TEST(Shuffle, SmallBufferKeepsTheBufferSemantics) {
  constexpr std::uint64_t kBuffer = 16, kCount = 2000;
  const std::vector<std::uint64_t> ids = order(Dataset::range(kCount).shuffle(kBuffer), 0, 9);
  std::uint64_t late = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    ASSERT_LT(ids[i], i + kBuffer) << "drawn before it could be in the buffer";
    late = std::max(late, i - std::min(i, ids[i]));
  }
  EXPECT_GT(late, kBuffer);  // an element may stay in the buffer for long
  // The first element is uniform over the buffer: 15 degrees of freedom, below 50 with probability
  // 0.99999.
  std::map<std::uint64_t, int> counts;
  for (std::uint64_t seed = 0; seed < 16000; ++seed) {
    counts[Dataset::range(64).shuffle(kBuffer).node()->locate({0, 0}, seed).index]++;
  }
  double sum = 0;
  for (const auto& [id, count] : counts) sum += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_EQ(counts.size(), kBuffer);
  EXPECT_LT(sum, 50);
}

TEST(Shuffle, BufferedOrderDoesNotDependOnHowItIsRead) {
  const Dataset dataset = Dataset::range(3000).shuffle(100);
  const std::vector<std::uint64_t> forward = order(dataset, 2, 4);
  EXPECT_EQ(dataset.node()->locate({2999, 2}, 4).index, forward[2999]);
  EXPECT_EQ(dataset.node()->locate({5, 1}, 4).index, order(dataset, 1, 4)[5]);
  EXPECT_EQ(dataset.node()->locate({0, 2}, 4).index, forward[0]);
  EXPECT_EQ(dataset.node()->locate({1500, 2}, 4).index, forward[1500]);
}

TEST(Shuffle, SeedsAndEpochsMatterAsAsked) {
  const Dataset plain = Dataset::range(100).shuffle(100);
  EXPECT_NE(order(plain, 0, 1), order(plain, 0, 2));
  EXPECT_NE(order(plain, 0, 1), order(plain, 1, 1));
  const Dataset seeded = Dataset::range(100).shuffle(100, {.seed = 4});
  EXPECT_EQ(order(seeded, 0, 1), order(seeded, 0, 2));
  EXPECT_NE(order(seeded, 0, 1), order(seeded, 1, 1));
  const Dataset frozen =
      Dataset::range(100).shuffle(30, {.seed = 4, .reshuffle_each_iteration = false});
  EXPECT_EQ(order(frozen, 0, 1), order(frozen, 9, 2));
  // Two shuffles in a row are two different permutations, not one applied twice.
  const Dataset twice = plain.shuffle(100);
  std::vector<std::uint64_t> squared = order(plain, 0, 1);
  for (std::uint64_t& id : squared) id = order(plain, 0, 1)[id];
  EXPECT_NE(order(twice, 0, 1), squared);
}

TEST(Shuffle, FiftyMillionElementsInSixteenMegabytes) {
  const std::uint64_t before = read_process_memory().peak_bytes;
  const Dataset dataset =
      Dataset::range(50'000'000).shuffle(50'000'000).batch(1000).prefetch(AUTOTUNE);
  ThreadPool pool(2);
  BatchReader reader(dataset, {.seed = 1, .threads = 2});
  Room room(reader);
  std::uint64_t sum = 0;
  for (int batch = 0; batch < 300; ++batch) {
    for (const std::uint64_t id : room.next(reader, pool).ids) sum += id;
    if (batch % 100 == 99) reader.seek(0, static_cast<std::uint64_t>(batch) * 150);
  }
  // The mean of 300,000 uniform draws of 50 million has a standard error of 0.1 %.
  EXPECT_NEAR(static_cast<double>(sum) / 300e3 / 25e6, 1.0, 0.01);
  EXPECT_LT(read_process_memory().peak_bytes - before, 16u << 20);
}

}  // namespace
}  // namespace surefit::data
