// SPDX-License-Identifier: Apache-2.0
// A plan: in which order, in which groups of samples and at which addresses a graph runs. Made by a
// pure function of its inputs, checked by an independent verifier, executed by the engine. It
// decides scheduling only: algorithms and sum orders belong to the graph, so every plan of a graph
// gives the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace surefit {

// A stretch of the arena (or of persistent memory) that holds one value, or scratch, for a while.
struct Buffer {
  ValueId value = kNone;  // kNone: scratch
  std::string name;       // for people
  std::string layer;
  Category category = Category::kActivations;
  bool persistent = false;       // lives outside the arena, between steps
  std::size_t sample_bytes = 0;  // 0 where the buffer is not batched
  std::int64_t samples = 0;      // batch, or the group of its segment
  std::size_t bytes = 0;
  int first = 0, last = 0;  // instances during which it is alive, both included
  std::size_t offset = 0;   // in the arena
};

// One execution of a node within the step. A node appears twice when its result is recomputed.
struct Instance {
  NodeId node = kNone;
  std::vector<int> inputs, outputs;  // buffers, in the node's order
  int thread_scratch = kNone, shared_scratch = kNone;
};

// Instances [begin, end) run for samples [0, group), then for [group, 2 group), and so on to the
// batch's end. With the group as large as the batch this is stage-major; with a small one a group
// passes all layers before the next starts.
struct Segment {
  int begin = 0, end = 0;
  std::int64_t group = 0;
};

// Everything resident of any part of the process; their sum is the prediction.
struct LedgerEntry {
  std::string name;
  Category category = Category::kRuntime;
  std::uint64_t bytes = 0;
};

struct Plan {
  std::int64_t batch = 0;
  int threads = 1;
  std::vector<Segment> segments;
  std::vector<Instance> instances;
  std::vector<Buffer> buffers;
  std::size_t arena_bytes = 0;
  std::size_t max_live_bytes = 0;  // no packing can be smaller
  int peak_instance = 0;           // where max_live_bytes occurs
  std::vector<LedgerEntry> ledger;

  std::uint64_t predicted_bytes() const;
  std::array<std::uint64_t, kCategoryCount> by_category() const;  // of predicted_bytes()
};

struct PlanOptions {
  std::int64_t batch = 1;
  int threads = 1;
  // Samples per group; 0 lets the planner choose.
  std::int64_t group = 0;
  // Apply each gradient as soon as it is final and drop it. Needs whole-batch groups.
  bool early_update = false;
  // Test hook: never share memory between an input and an output.
  bool allow_in_place = true;
  // Test hook: give every buffer memory of its own.
  bool allow_sharing = true;
};

// Throws ConfigError on impossible options. The result has passed verify().
Plan make_plan(const Graph& graph, const PlanOptions& options);

// The smallest of the fastest plans by the cost model; options that are set stay as they are.
Plan choose_plan(const Graph& graph, const PlanOptions& options);

// Plays the plan's schedule on a model of the arena and throws InternalError unless every read
// finds exactly what its node expects, scratch is nobody else's, and every persistent value is
// updated once. Knows nothing of how plans are made. Runs on every plan, in release builds too.
void verify(const Graph& graph, const Plan& plan);

}  // namespace surefit
