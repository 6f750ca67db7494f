// SPDX-License-Identifier: Apache-2.0
// A plan: in which order, in which groups of samples and at which addresses a graph runs. Made by a
// pure function of its inputs, checked by an independent verifier, executed by the engine. It
// decides scheduling only: algorithms and sum orders belong to the graph, so every plan of a graph
// gives the same bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace surefit {

// A stretch of the arena (or of persistent memory) that holds one value, or scratch, for a while.
struct Buffer {
  ValueId value = kNone;  // kNone: scratch
  std::string name;       // for people; like `layer` not filled in sketches
  std::string layer;
  Category category = Category::kActivations;
  bool persistent = false;       // lives outside the arena, between steps
  std::size_t sample_bytes = 0;  // 0 where the buffer is not batched
  std::int64_t samples = 0;      // batch, or the group of its segment
  std::size_t bytes = 0;
  int first = 0, last = 0;  // instances during which it is alive, both included
  std::size_t offset = 0;   // in the arena
  bool half = false;        // holds the value's 16-bit form
};

// What the backward pass reads of the forward pass has to survive the turn between them, one way or
// another.
enum class Saving : std::uint8_t {
  kKeep,       // stays where it is
  kRecompute,  // dropped behind its last forward reader; its node runs again
  kSpill,      // written to a file and read back
  kHalf,       // stored in the 16-bit format that its numbers have anyway (OpTraits::half)
};

// One step of the schedule.
enum class Action : std::uint8_t {
  kRun,     // a node; it appears twice when its result is recomputed
  kSpill,   // input 0 -> file
  kFetch,   // file -> output 0
  kShrink,  // input 0 -> output 0, its 16-bit form
  kExpand,  // and back
};
struct Instance {
  Action action = Action::kRun;
  NodeId node = kNone;  // what runs; for the other actions, the node whose result is moved
  std::vector<int> inputs, outputs;  // buffers, in the node's order
  int thread_scratch = kNone, shared_scratch = kNone;
  std::size_t file_offset = 0;  // kSpill, kFetch: of the value's sample 0
  bool again = false;           // restores what the forward pass had
  // Of the node, which belongs to the plan's form of the graph; not filled in sketches.
  std::string layer, kind;
  Phase phase = Phase::kForward;
};

// Instances [begin, end) run for samples [0, group), then for [group, 2 group), and so on to the
// batch's end. With the group as large as the batch this is stage-major; with a small one a group
// passes all layers before the next starts.
struct Segment {
  int begin = 0, end = 0;
  std::int64_t group = 0;
};

struct Plan {
  std::int64_t batch = 0;
  int threads = 1;
  Form form = Form::kUsual;  // of the graph that the plan is for
  std::vector<Segment> segments;
  std::vector<Instance> instances;
  std::vector<Buffer> buffers;
  std::size_t arena_bytes = 0;
  std::size_t file_bytes = 0;      // of the spill file
  std::size_t max_live_bytes = 0;  // no packing can be smaller
  int peak_instance = 0;           // where max_live_bytes occurs
};

// A stretch of forward nodes that share a group size, forward and backward. Stretches cover the
// forward nodes in order.
struct Stretch {
  NodeId end = 0;  // one past its last forward node
  std::int64_t group = 0;
};

struct PlanOptions {
  std::int64_t batch = 1;
  int threads = 1;
  // Samples per group where `stretches` is empty; 0: the whole batch.
  std::int64_t group = 0;
  std::vector<Stretch> stretches = {};
  // By value; empty: everything is kept. Only results of pure forward nodes that are no sums can be
  // anything else.
  std::vector<Saving> saving = {};
  // Nodes run in this form where they have it.
  Form form = Form::kUsual;
  // Test hook: never share memory between an input and an output.
  bool allow_in_place = true;
  // Test hook: give every buffer memory of its own.
  bool allow_sharing = true;
};

// Throws ConfigError on impossible options. The result has passed verify().
Plan make_plan(const Graph& graph, const PlanOptions& options);

// Plays the plan's schedule on a model of the arena and throws InternalError unless every read
// finds exactly what its node expects, scratch is nobody else's, and every persistent value is
// updated once. Knows nothing of how plans are made. Runs on every plan, in release builds too.
void verify(const Graph& graph, const Plan& plan);

}  // namespace surefit
