// SPDX-License-Identifier: Apache-2.0
// The budget search against brute force and against its own promises.
#include "plan/form_search.hpp"

#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "plan/chain.hpp"
#include "plan/cost.hpp"
#include "plan/schedule.hpp"
#include "plan/sketch.hpp"
#include "support/fake_op.hpp"

namespace surefit {
namespace {

// All tilings, tried one by one.
double brute_force(int blocks, const std::vector<ChainOption>& options, std::size_t bytes) {
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(int, std::size_t, double)> go = [&](int block, std::size_t used,
                                                               double seconds) {
    if (block == blocks) {
      best = std::min(best, seconds);
      return;
    }
    for (const ChainOption& option : options) {
      if (option.begin != block || used + option.working > bytes || used + option.kept > bytes)
        continue;
      go(option.end, used + option.kept, seconds + option.seconds);
    }
  };
  go(0, 0, 0);
  return best;
}

TEST(Chain, TilingsAreTheBestThereAre) {
  std::mt19937 random(7);
  int solved = 0, impossible = 0;
  for (int round = 0; round < 2000; ++round) {
    const int blocks = 1 + static_cast<int>(random() % 6);
    std::vector<ChainOption> options;
    for (int begin = 0; begin < blocks; ++begin) {
      for (int end = begin + 1; end <= blocks; ++end) {
        for (int o = 0; o < 2; ++o) {
          ChainOption option{begin, end, 0, 0, 0};
          option.seconds = static_cast<double>(random() % 20);
          option.kept = random() % 40;
          option.working = option.kept + random() % 60;
          options.push_back(option);
        }
      }
    }
    const std::size_t bytes = 20 + random() % 150;  // below the number of levels: no rounding
    const double expected = brute_force(blocks, options, bytes);
    const auto tiling = tile_chain(blocks, options, bytes);
    if (!tiling) {
      ++impossible;
      EXPECT_EQ(expected, std::numeric_limits<double>::infinity()) << round;
      continue;
    }
    ++solved;
    double seconds = 0;
    std::size_t used = 0;
    int block = 0;
    for (const int index : *tiling) {
      const ChainOption& option = options[static_cast<std::size_t>(index)];
      ASSERT_EQ(option.begin, block);
      ASSERT_LE(used + option.working, bytes);
      block = option.end;
      used += option.kept;
      seconds += option.seconds;
    }
    EXPECT_EQ(block, blocks);
    EXPECT_DOUBLE_EQ(seconds, expected) << round;
  }
  EXPECT_GT(solved, 500);
  EXPECT_GT(impossible, 50);
}

// Coarse levels may cost time, never memory.
TEST(Chain, RoundingStaysOnTheSafeSide) {
  std::mt19937 random(8);
  for (int round = 0; round < 300; ++round) {
    std::vector<ChainOption> options;
    for (int begin = 0; begin < 8; ++begin) {
      for (int o = 0; o < 3; ++o) {
        const std::size_t kept = random() % 100000;
        options.push_back(
            {begin, begin + 1, static_cast<double>(random() % 20), kept, kept + random() % 100000});
      }
    }
    const std::size_t bytes = 100000 + random() % 400000;
    const auto tiling = tile_chain(8, options, bytes, 64);
    if (!tiling) continue;
    std::size_t used = 0;
    for (const int index : *tiling) {
      ASSERT_LE(used + options[static_cast<std::size_t>(index)].working, bytes);
      used += options[static_cast<std::size_t>(index)].kept;
    }
  }
}

// A chain of layers whose backward needs their input, as convolutions do, with normalisations
// between that couple the batch: groups do not help, only recomputation does.
Graph coupled_chain(int layers, std::mt19937& random) {
  Graph graph(fake_structural_ops());
  std::vector<ValueId> inputs, weights;
  ValueId x = graph.add_input("x", batched_floats(64));
  for (int i = 0; i < layers; ++i) {
    const auto width = static_cast<std::int64_t>(256 + random() % 2048);
    weights.push_back(graph.add_persistent("w", floats(32), Category::kWeights));
    FakeOp::Spec layer = {.kind = "layer", .outputs = {batched_floats(width)}};
    layer.traits.flops_per_sample = static_cast<double>(1000000 + random() % 50000000);
    inputs.push_back(x);
    x = graph.add1(fake(layer), {x, weights.back()}, "layer", Phase::kForward);
    FakeOp::Spec sum = {.kind = "sum", .outputs = {floats(8)}};
    sum.traits.role = BatchRole::kReduction;
    const ValueId total = graph.add1(fake(sum), {x}, "norm", Phase::kForward);
    x = graph.add1(fake({.kind = "apply", .outputs = {batched_floats(width)}}), {x, total}, "norm",
                   Phase::kForward);
  }
  ValueId gradient = graph.add1(fake({.kind = "loss", .outputs = {graph.value(x).type}}), {x},
                                "loss", Phase::kForward);
  for (std::size_t i = inputs.size(); i-- > 0;) {
    const auto first = static_cast<NodeId>(graph.nodes().size());
    FakeOp::Spec sum = {.kind = "weights", .outputs = {floats(32)}};
    sum.traits.role = BatchRole::kReduction;
    const ValueId total = graph.add1(fake(sum), {inputs[i], gradient}, "layer", Phase::kBackward,
                                     Category::kGradients);
    gradient = graph.add1(fake({.kind = "data", .outputs = {graph.value(inputs[i]).type}}),
                          {gradient, weights[i]}, "layer", Phase::kBackward);
    graph.set_source(first, static_cast<NodeId>(3 * i));
    FakeOp::Spec update = {.kind = "update", .mutated = {0}};
    update.traits.role = BatchRole::kBatchFree;
    graph.add(fake(update), {weights[i], total}, "update", Phase::kUpdate);
  }
  return graph;
}

// Every subset of values to drop, tried one by one: the search, which tries some dozens, comes
// close on the whole.
TEST(Search, ComesCloseToBruteForceOnSmallChains) {
  std::mt19937 random(11);
  int tried = 0;
  double worst = 1, sum = 0;
  for (int round = 0; round < 40; ++round) {
    const Graph graph = coupled_chain(3 + static_cast<int>(random() % 3), random);
    const std::vector<OpTraits> traits = traits_of(graph);
    std::vector<ValueId> droppable;
    for (const Value& value : graph.values()) {
      if (restorable(graph, traits, value.id) &&
          graph.value(value.id).name.find("loss") == std::string::npos) {
        droppable.push_back(value.id);
      }
    }
    FormSearch search(graph, {.batch = 8, .threads = 1, .allow_spill = false});
    const std::size_t full = search.fastest().live_bytes, least = search.smallest().live_bytes;
    const std::size_t budget = least + (full - least) / (2 + random() % 3);
    double best = std::numeric_limits<double>::infinity();
    std::size_t smallest = full;
    for (std::uint32_t subset = 0; subset < (1U << droppable.size()); ++subset) {
      PlanOptions options = {.batch = 8, .threads = 1};
      options.saving.assign(graph.values().size(), Saving::kKeep);
      for (std::size_t i = 0; i < droppable.size(); ++i) {
        if ((subset >> i & 1U) != 0)
          options.saving[static_cast<std::size_t>(droppable[i])] = Saving::kRecompute;
      }
      const Plan plan = sketch_plan(graph, traits, options);
      smallest = std::min(smallest, plan.max_live_bytes);
      if (plan.max_live_bytes <= budget)
        best = std::min(best, estimate_seconds(graph, traits, plan));
    }
    const auto found = search.within(budget, true);
    ASSERT_TRUE(found) << round;
    EXPECT_LE(found->live_bytes, budget);
    EXPECT_LE(static_cast<double>(least), 1.2 * static_cast<double>(smallest)) << round;
    worst = std::max(worst, found->seconds / best);
    sum += found->seconds / best;
    ++tried;
  }
  std::printf("%d chains, time against brute force: mean %.3f, worst %.3f\n", tried, sum / tried,
              worst);
  EXPECT_LE(sum / tried, 1.05);
  EXPECT_LE(worst, 1.5);
}

TEST(Search, FitsTheBudgetOrSaysNo) {
  std::mt19937 random(12);
  for (int round = 0; round < 30; ++round) {
    const Graph graph = coupled_chain(12, random);
    FormSearch search(graph, {.batch = 16, .threads = 2});
    const std::size_t full = search.fastest().live_bytes, least = search.floor().live_bytes;
    ASSERT_LT(least, full * 3 / 4);
    double slowest = 0;
    for (const double share : {1.0, 0.7, 0.5, 0.3, 0.0}) {
      const auto budget =
          least + static_cast<std::size_t>(share * static_cast<double>(full - least));
      const auto choice = search.within(budget, true);
      ASSERT_TRUE(choice);
      EXPECT_LE(choice->live_bytes, budget);
      const auto found = search.plan_within(budget, true);
      ASSERT_TRUE(found || share == 0);
      if (found) {
        EXPECT_LE(found->plan.arena_bytes, budget);
      }
      slowest = std::max(slowest, choice->seconds);
    }
    EXPECT_GT(slowest, search.fastest().seconds);
    EXPECT_FALSE(search.within(least - 1, true));
  }
}

}  // namespace
}  // namespace surefit
