// SPDX-License-Identifier: Apache-2.0
// Negative controls: sound plans, broken in one way at a time, must be refused for that reason.
#include <algorithm>

#include <gtest/gtest.h>

#include "plan/plan.hpp"
#include "support/fake_op.hpp"

namespace surefit {
namespace {

// x -> first -> second -> sum(first, second) -> update(w); `third` reads x at the end.
class VerifyTest : public ::testing::Test {
 protected:
  VerifyTest() : graph_(fake_structural_ops()) {
    x_ = graph_.add_input("x", batched_floats(100));
    w_ = graph_.add_persistent("w", floats(50), Category::kWeights);
    FakeOp::Spec layer = {.kind = "layer", .outputs = {batched_floats(100)}};
    layer.traits.thread_scratch_bytes = 256;
    layer.traits.half = Half::kFloat16;
    first_ = graph_.add1(fake(layer), {x_, w_}, "first", Phase::kForward);
    second_ = graph_.add1(fake(layer), {first_, w_}, "second", Phase::kForward);
    FakeOp::Spec sum = {.kind = "sum", .outputs = {floats(50)}};
    sum.traits.role = BatchRole::kReduction;
    sum.traits.sample_grain = 4;
    sum_ = graph_.add1(fake(sum), {first_, second_}, "sum", Phase::kBackward);
    FakeOp::Spec last = {.kind = "layer", .outputs = {batched_floats(100)}};
    last.traits.thread_scratch_bytes = 4096;
    third_ = graph_.add1(fake(last), {second_}, "third", Phase::kBackward);
    graph_.keep(third_);
    FakeOp::Spec update = {.kind = "update", .mutated = {0}};
    update.traits.role = BatchRole::kBatchFree;
    graph_.add(fake(update), {w_, sum_}, "update", Phase::kUpdate);
  }

  Plan plan(std::int64_t group = 0) const {
    return make_plan(graph_, {.batch = 8, .threads = 2, .group = group});
  }
  static Buffer& buffer_of(Plan& plan, ValueId value) {
    for (Buffer& buffer : plan.buffers) {
      if (buffer.value == value) return buffer;
    }
    throw std::logic_error("no buffer");
  }
  std::vector<Instance>::iterator update_in(Plan& plan) const {
    return std::find_if(plan.instances.begin(), plan.instances.end(),
                        [&](const Instance& instance) {
                          return graph_.node(instance.node).phase == Phase::kUpdate;
                        });
  }
  void expect_refused(const Plan& plan, const std::string& why) const {
    try {
      verify(graph_, plan);
      FAIL() << "accepted";
    } catch (const InternalError& error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  }

  Graph graph_;
  ValueId x_, w_, first_, second_, sum_, third_;
};

TEST_F(VerifyTest, AcceptsWhatThePlannerMakes) {
  for (const std::int64_t group : {0, 1, 4, 8}) EXPECT_NO_THROW(verify(graph_, plan(group)));
}

TEST_F(VerifyTest, ABufferOnALiveNeighbour) {
  Plan broken = plan();
  buffer_of(broken, second_).offset = buffer_of(broken, first_).offset;
  expect_refused(broken, "overwrites its input");
}

TEST_F(VerifyTest, ABufferThatReachesIntoALiveNeighbour) {
  Plan broken = plan();
  // One alignment step is enough.
  const std::size_t onto = buffer_of(broken, first_).offset;
  buffer_of(broken, second_).offset = onto >= 64 ? onto - 64 : onto + 64;
  expect_refused(broken, "overwrites its input");
}

TEST_F(VerifyTest, AShortenedLifetimePackedOver) {
  Plan broken = plan();
  Buffer& second = buffer_of(broken, second_);
  second.last = second.first + 1;  // though `third` reads it behind `sum`
  buffer_of(broken, sum_).offset = second.offset;
  expect_refused(broken, "overwrites its input");
  // Between the two readers of `first`, where nobody uses it: only the shadow of the arena can
  // tell.
  broken = plan();
  Buffer& first = buffer_of(broken, first_);
  first.last = first.first;
  first.offset = buffer_of(broken, x_).offset;
  buffer_of(broken, x_).offset = broken.arena_bytes;
  broken.arena_bytes += first.bytes;
  verify(graph_, broken);  // moved apart: still sound
  for (std::size_t i = 0; i < broken.buffers.size(); ++i) {
    if (broken.instances[1].thread_scratch == static_cast<int>(i))
      broken.buffers[i].offset = first.offset;
  }
  expect_refused(broken, "lies on its input");
}

TEST_F(VerifyTest, SwappedInstances) {
  Plan broken = plan();
  std::swap(broken.instances[0], broken.instances[1]);
  expect_refused(broken, "holds something else");
}

TEST_F(VerifyTest, AnUpdateBeforeTheLastReader) {
  Plan broken = plan();
  const auto update = update_in(broken);
  std::rotate(broken.instances.begin() + 1, update, update + 1);
  expect_refused(broken, "holds something else");
}

TEST_F(VerifyTest, AChangeBeforeTheForwardPassIsComplete) {
  FakeOp::Spec change = {.kind = "change", .mutated = {0}};
  change.traits.role = BatchRole::kBatchFree;
  const ValueId other = graph_.add_persistent("other", floats(5), Category::kWeights);
  graph_.add(fake(change), {other}, "change", Phase::kUpdate);
  Plan broken = plan();
  EXPECT_NO_THROW(verify(graph_, broken));
  const auto early = std::find_if(
      broken.instances.begin(), broken.instances.end(),
      [&](const Instance& instance) { return graph_.node(instance.node).op->kind() == "change"; });
  std::rotate(broken.instances.begin() + 1, early, early + 1);
  expect_refused(broken, "before the forward pass is complete");
}

// A sum beside results for every sample: those may be read at once, in the place of their input.
TEST_F(VerifyTest, ASumWithResultsBesideIt) {
  FakeOp::Spec both = {.kind = "both", .outputs = {floats(50), batched_floats(100)}};
  both.traits.role = BatchRole::kReduction;
  both.traits.in_place_input = 0;
  both.traits.in_place_output = 1;
  const std::vector<ValueId> made =
      graph_.add(fake(both), {first_, third_}, "both", Phase::kBackward);
  const ValueId reader = graph_.add1(fake({.kind = "reader", .outputs = {batched_floats(7)}}),
                                     {made[1]}, "reader", Phase::kBackward);
  graph_.keep(reader);
  graph_.keep(made[0]);
  for (const std::int64_t group : {0, 1, 3, 4}) {
    Plan good = plan(group);
    EXPECT_NO_THROW(verify(graph_, good)) << group;
    EXPECT_EQ(buffer_of(good, made[1]).offset, buffer_of(good, first_).offset) << group;
    buffer_of(good, made[0]).offset = buffer_of(good, made[1]).offset;
    expect_refused(good, "overwrites its input");
  }
}

TEST_F(VerifyTest, ADroppedUpdate) {
  Plan broken = plan();
  broken.instances.erase(update_in(broken));
  --broken.segments.back().end;
  expect_refused(broken, "runs 0 times");
}

TEST_F(VerifyTest, AnUpdateRunTwice) {
  Plan broken = plan();
  broken.instances.push_back(*update_in(broken));
  ++broken.segments.back().end;
  expect_refused(broken, "after its update");
}

TEST_F(VerifyTest, AReductionCutInsideItsGrain) {
  Plan broken = plan(4);
  ASSERT_EQ(broken.segments[0].group, 4);
  broken.segments[0].group = 2;
  expect_refused(broken, "grain");
}

// With two groups the sum is partial only once: the second group must find it as the first left it.
TEST_F(VerifyTest, APartialSumOverwrittenBetweenGroups) {
  Plan broken = plan(4);
  Buffer& sum = buffer_of(broken, sum_);
  for (const Instance& instance : broken.instances) {
    if (graph_.node(instance.node).layer != "third") continue;
    Buffer& scratch = broken.buffers[static_cast<std::size_t>(instance.thread_scratch)];
    scratch.offset = broken.arena_bytes;
    sum.offset = broken.arena_bytes;
    broken.arena_bytes += scratch.bytes;
  }
  expect_refused(broken, "partial sum");
}

TEST_F(VerifyTest, TooLittleScratch) {
  Plan broken = plan();
  broken.buffers[static_cast<std::size_t>(broken.instances[0].thread_scratch)].bytes =
      256;  // one of two threads
  expect_refused(broken, "too small");
}

TEST_F(VerifyTest, ABufferOutsideTheArena) {
  Plan broken = plan();
  buffer_of(broken, third_).offset = broken.arena_bytes;
  expect_refused(broken, "outside the arena");
}

TEST_F(VerifyTest, ABufferTooSmallForItsValue) {
  Plan broken = plan();
  buffer_of(broken, third_).bytes -= 4;
  expect_refused(broken, "needs");
}

TEST_F(VerifyTest, AnOperandInTheWrongBuffer) {
  Plan broken = plan();
  broken.instances[1].inputs[0] = broken.instances[0].inputs[0];
  expect_refused(broken, "from the buffer of");
}

TEST_F(VerifyTest, AKeptValueThatIsOverwritten) {
  Graph graph = graph_;
  graph.keep(first_);
  EXPECT_NO_THROW(verify(graph, make_plan(graph, {.batch = 8})));
  // The plan for the graph that does not keep it reuses its memory.
  Plan broken = make_plan(graph_, {.batch = 8});
  Instance& last = broken.instances.back();
  ASSERT_EQ(graph_.node(last.node).layer, "third");
  Buffer& scratch = broken.buffers[static_cast<std::size_t>(last.thread_scratch)];
  scratch.offset = broken.arena_bytes;
  broken.arena_bytes += scratch.bytes;
  buffer_of(broken, third_).offset = buffer_of(broken, first_).offset;
  verify(graph_, broken);
  EXPECT_THROW(verify(graph, broken), InternalError);
}

// What leaves the arena has to come back from where it was put.
TEST_F(VerifyTest, AValueFetchedFromAnotherPlace) {
  PlanOptions options = {.batch = 8, .threads = 2, .group = 4};
  options.saving.assign(graph_.values().size(), Saving::kKeep);
  options.saving[static_cast<std::size_t>(first_)] = Saving::kSpill;
  options.saving[static_cast<std::size_t>(second_)] = Saving::kSpill;
  Plan broken = make_plan(graph_, options);
  for (Instance& instance : broken.instances) {
    if (instance.action == Action::kFetch)
      instance.file_offset = instance.file_offset == 0 ? 4096 : 0;
  }
  expect_refused(broken, "before it is spilled");
}

TEST_F(VerifyTest, AValueFetchedBeforeItIsSpilled) {
  PlanOptions options = {.batch = 8, .threads = 2};
  options.saving.assign(graph_.values().size(), Saving::kKeep);
  options.saving[static_cast<std::size_t>(first_)] = Saving::kSpill;
  Plan broken = make_plan(graph_, options);
  std::erase_if(broken.instances, [](const Instance& i) { return i.action == Action::kSpill; });
  --broken.segments.back().end;
  expect_refused(broken, "before it is spilled");
}

TEST_F(VerifyTest, AReaderOfTheSixteenBitForm) {
  PlanOptions options = {.batch = 8, .threads = 2};
  options.saving.assign(graph_.values().size(), Saving::kKeep);
  options.saving[static_cast<std::size_t>(first_)] = Saving::kHalf;
  Plan broken = make_plan(graph_, options);
  for (std::size_t i = 0; i < broken.instances.size(); ++i) {
    if (broken.instances[i].action != Action::kExpand) continue;
    const int half = broken.instances[i].inputs[0], full = broken.instances[i].outputs[0];
    for (Instance& later : broken.instances) {
      for (int& input : later.inputs) {
        if (input == full) input = half;
      }
    }
  }
  expect_refused(broken, "16-bit");
}

// Storing in 16 bits what has more of them would change the result.
TEST_F(VerifyTest, ASixteenBitFormThatLosesBits) {
  FakeOp::Spec exact = {.kind = "exact", .outputs = {batched_floats(100)}};
  const ValueId value = graph_.add1(fake(exact), {x_}, "exact", Phase::kForward);
  graph_.add(fake({.kind = "reader", .outputs = {batched_floats(100)}}), {value}, "reader",
             Phase::kBackward);
  PlanOptions options = {.batch = 8, .threads = 2};
  options.saving.assign(graph_.values().size(), Saving::kKeep);
  options.saving[static_cast<std::size_t>(value)] = Saving::kHalf;
  try {
    make_plan(graph_, options);
    FAIL() << "accepted";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("would lose bits"), std::string::npos);
  }
}

// Samples that depend on others of their grain must stay with them.
TEST_F(VerifyTest, AGrainThatIsCut) {
  FakeOp::Spec ghost = {.kind = "ghost", .outputs = {batched_floats(100)}};
  ghost.traits.sample_grain = 4;
  const ValueId value = graph_.add1(fake(ghost), {x_}, "ghost", Phase::kBackward);
  graph_.keep(value);
  Plan broken = plan(2);
  for (const Segment& segment : broken.segments) {
    const bool holds = std::any_of(
        broken.instances.begin() + segment.begin, broken.instances.begin() + segment.end,
        [&](const Instance& i) { return graph_.node(i.node).op->kind() == "ghost"; });
    EXPECT_TRUE(!holds || segment.group % 4 == 0);
  }
  for (Segment& segment : broken.segments) segment.group = std::min<std::int64_t>(segment.group, 2);
  expect_refused(broken, "grain");
}

// A recomputation that is dropped leaves its reader with whatever lies there now.
TEST_F(VerifyTest, ARecomputationThatIsDropped) {
  PlanOptions options = {.batch = 8, .threads = 2, .allow_sharing = false};
  options.saving.assign(graph_.values().size(), Saving::kKeep);
  options.saving[static_cast<std::size_t>(first_)] = Saving::kRecompute;
  Plan broken = make_plan(graph_, options);
  const auto before = broken.instances.size();
  std::erase_if(broken.instances, [](const Instance& i) { return i.again; });
  ASSERT_EQ(broken.instances.size() + 1, before);
  --broken.segments.back().end;
  expect_refused(broken, "holds something else");
}

TEST_F(VerifyTest, SegmentsThatDoNotCoverTheInstances) {
  Plan broken = plan();
  --broken.segments.back().end;
  expect_refused(broken, "segments end at");
}

}  // namespace
}  // namespace surefit
