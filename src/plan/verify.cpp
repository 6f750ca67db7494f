// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "base/check.hpp"
#include "plan/plan.hpp"

namespace surefit {
namespace {

constexpr int kGarbage = -1;

// Who wrote each byte of the arena last: maximal runs [start, end) -> tag. Tags name a value and,
// for memory that is used anew by each group of samples, the group.
class ShadowArena {
 public:
  explicit ShadowArena(std::size_t bytes) { runs_[0] = {bytes, kGarbage}; }

  void write(std::size_t begin, std::size_t end, std::int64_t tag) {
    if (begin == end) return;
    split(begin);
    split(end);
    runs_.erase(runs_.lower_bound(begin), runs_.lower_bound(end));
    runs_[begin] = {end, tag};
  }

  // The first byte in [begin, end) that does not carry the tag, or `end`.
  std::size_t first_other(std::size_t begin, std::size_t end, std::int64_t tag) const {
    if (begin == end) return end;
    auto run = std::prev(runs_.upper_bound(begin));
    std::size_t at = begin;
    while (at < end) {
      if (run == runs_.end() || run->second.second != tag) return at;
      at = run->second.first;
      ++run;
    }
    return end;
  }

 private:
  void split(std::size_t at) {
    auto run = std::prev(runs_.upper_bound(at));
    if (run->first == at || run->second.first <= at) return;
    runs_[at] = run->second;
    run->second.first = at;
  }
  std::map<std::size_t, std::pair<std::size_t, std::int64_t>> runs_;
};

class Verifier {
 public:
  Verifier(const Graph& graph, const Plan& plan)
      : graph_(graph), plan_(plan), arena_(plan.arena_bytes), file_(plan.file_bytes) {
    for (const Node& node : graph.nodes()) {
      traits_.push_back(node.op->traits(graph.input_types(node), graph.output_types(node)));
      if (node.phase == Phase::kForward) forward_.insert(node.id);
    }
  }

  void run() {
    check_shape();
    for (const Buffer& buffer : plan_.buffers) {
      if (buffer.value != kNone && !buffer.persistent &&
          value_of(buffer).origin == Origin::kInput) {
        arena_.write(buffer.offset, buffer.offset + buffer.bytes, tag(buffer, 0));
      }
    }
    for (const Segment& segment : plan_.segments) {
      const std::int64_t groups = (plan_.batch + segment.group - 1) / segment.group;
      for (std::int64_t group = 0; group < groups; ++group) {
        for (int i = segment.begin; i < segment.end; ++i) play(i, segment, group);
      }
    }
    for (const ValueId id : graph_.kept()) check_kept(id);
    for (const Node& node : graph_.nodes()) {
      if (!node.op->pure()) {
        SUREFIT_CHECK(runs_[node.id] == 1,
                      "{} of layer {} changes persistent memory but runs {} times", node.op->kind(),
                      node.layer, runs_[node.id]);
      }
    }
  }

 private:
  const Value& value_of(const Buffer& buffer) const { return graph_.value(buffer.value); }
  const Buffer& buffer(int index) const {
    SUREFIT_CHECK(index >= 0 && index < static_cast<int>(plan_.buffers.size()), "buffer {}", index);
    return plan_.buffers[static_cast<std::size_t>(index)];
  }

  static constexpr std::int64_t kPartial =
      0xFFFFFFFF;  // in place of a group: a sum that is not complete
  static constexpr std::int64_t kHalf = std::int64_t{1} << 62;  // the value's 16-bit form
  static std::int64_t tag_of(ValueId value, std::int64_t group) {
    return (std::int64_t{value} << 32) + group;
  }
  std::int64_t tag(const Buffer& buffer, std::int64_t group) const {
    const bool whole = buffer.sample_bytes == 0 || buffer.samples >= plan_.batch;
    return tag_of(buffer.value, whole ? 0 : group) | (buffer.half ? kHalf : 0);
  }

  // Segments cover the instances in order; buffers lie inside the arena and are large enough for
  // their value.
  void check_shape() const {
    int next = 0;
    for (const Segment& segment : plan_.segments) {
      SUREFIT_CHECK(segment.begin == next && segment.end > segment.begin && segment.group >= 1,
                    "segment [{}, {}) of group {}", segment.begin, segment.end, segment.group);
      next = segment.end;
    }
    SUREFIT_CHECK(next == static_cast<int>(plan_.instances.size()), "segments end at {}", next);
    for (const Buffer& b : plan_.buffers) {
      SUREFIT_CHECK(b.persistent || b.offset + b.bytes <= plan_.arena_bytes,
                    "'{}' lies outside the arena", b.name);
      if (b.value == kNone) continue;
      const ValueType& type = value_of(b).type;
      SUREFIT_CHECK(type.batched == (b.sample_bytes > 0 || type.stored_bytes() == 0),
                    "'{}' batched", b.name);
      SUREFIT_CHECK(!b.half || (type.dtype == DType::kFloat32 && fits_half(b)),
                    "'{}' would lose bits in a 16-bit form", b.name);
      const std::size_t one = b.half ? type.stored_count() * 2 : type.stored_bytes();
      const std::size_t needed = type.batched ? one * static_cast<std::size_t>(b.samples) : one;
      SUREFIT_CHECK(b.bytes >= needed, "'{}' has {} bytes and needs {}", b.name, b.bytes, needed);
    }
  }

  bool fits_half(const Buffer& b) const {
    const NodeId producer = value_of(b).producer;
    return producer != kNone && traits_[static_cast<std::size_t>(producer)].half != Half::kNo;
  }

  // The bytes an instance touches of a buffer when it handles this group.
  std::pair<std::size_t, std::size_t> range(const Buffer& b, const Segment& segment,
                                            std::int64_t group) const {
    if (b.sample_bytes == 0) return {b.offset, b.offset + b.bytes};
    const std::int64_t begin = group * segment.group;
    const std::int64_t end = std::min(plan_.batch, begin + segment.group);
    const std::int64_t from = b.samples >= plan_.batch ? begin : 0;
    SUREFIT_CHECK(b.samples >= plan_.batch || b.samples >= segment.group,
                  "'{}' holds {} samples, group {}", b.name, b.samples, segment.group);
    return {b.offset + static_cast<std::size_t>(from) * b.sample_bytes,
            b.offset + static_cast<std::size_t>(from + end - begin) * b.sample_bytes};
  }

  void play(int index, const Segment& segment, std::int64_t group) {
    const Instance& instance = plan_.instances[static_cast<std::size_t>(index)];
    if (instance.action != Action::kRun) return move(instance, segment, group);
    const Node& node = graph_.node(instance.node);
    const OpTraits& traits = traits_[static_cast<std::size_t>(node.id)];
    SUREFIT_CHECK(instance.inputs.size() == node.inputs.size() &&
                      instance.outputs.size() == node.outputs.size(),
                  "operands of {}", node.op->kind());
    // What does not depend on samples runs once per segment, before its first group.
    if (traits.role == BatchRole::kBatchFree && group > 0) return;
    SUREFIT_CHECK(segment.group >= plan_.batch || segment.group % traits.sample_grain == 0,
                  "{} of {} is cut inside its grain of {}", node.op->kind(), node.layer,
                  traits.sample_grain);
    if (group == 0) ++runs_[node.id];
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      check_read(instance, node, i, segment, group);
    // A bad loss must be seen while everything is as it was.
    SUREFIT_CHECK(node.op->pure() || forward_.empty(),
                  "{} of layer {} changes persistent memory before the forward pass is complete",
                  node.op->kind(), node.layer);
    if ((group + 1) * segment.group >= plan_.batch || traits.role == BatchRole::kBatchFree)
      forward_.erase(node.id);
    // Scratch turns to garbage: whoever still needs those bytes will find out.
    std::vector<std::pair<std::size_t, std::size_t>> exclusive;
    for (const int scratch : {instance.thread_scratch, instance.shared_scratch}) {
      if (scratch == kNone) continue;
      const Buffer& b = buffer(scratch);
      exclusive.emplace_back(b.offset, b.offset + b.bytes);
      for (const int input : instance.inputs) {
        const Buffer& operand = buffer(input);
        if (operand.persistent) continue;
        const auto [from, to] = range(operand, segment, group);
        SUREFIT_CHECK(b.offset + b.bytes <= from || to <= b.offset,
                      "the scratch of {} of layer {} lies on its input '{}'", node.op->kind(),
                      node.layer, operand.name);
      }
      arena_.write(b.offset, b.offset + b.bytes, kGarbage);
    }
    const auto holds = [&](int scratch, std::size_t bytes) {
      return scratch == kNone || buffer(scratch).bytes >= bytes;
    };
    SUREFIT_CHECK(holds(instance.shared_scratch, traits.shared_scratch_bytes) &&
                      holds(instance.thread_scratch,
                            traits.thread_scratch_bytes * static_cast<std::size_t>(plan_.threads)),
                  "the scratch of {} of layer {} is too small", node.op->kind(), node.layer);
    SUREFIT_CHECK((traits.thread_scratch_bytes == 0) == (instance.thread_scratch == kNone) &&
                      (traits.shared_scratch_bytes == 0) == (instance.shared_scratch == kNone),
                  "scratch of {}", node.op->kind());
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const Buffer& b = buffer(instance.outputs[o]);
      SUREFIT_CHECK(b.value == graph_.root(node.outputs[o]),
                    "{} writes '{}' into the buffer of '{}'", node.op->kind(),
                    graph_.value(node.outputs[o]).name, b.name);
      const auto [begin, end] = range(b, segment, group);
      check_exclusive(instance, node, traits, o, begin, end, segment, group, exclusive);
      exclusive.emplace_back(begin, end);
      // A reduction is whole only after its last group; until then nobody may read it.
      const bool last = (group + 1) * segment.group >= plan_.batch;
      const bool sum = traits.role == BatchRole::kReduction && b.sample_bytes == 0;
      const bool partial = sum && !last;
      if (sum && group > 0) {
        const std::size_t other = arena_.first_other(begin, end, tag_of(b.value, kPartial));
        SUREFIT_CHECK(other == end, "the partial sum '{}' was overwritten between groups", b.name);
      }
      arena_.write(begin, end, partial ? tag_of(b.value, kPartial) : tag(b, group));
    }
  }

  // To the file and back, to half the size and back: the source holds the value's samples, the
  // target gets them.
  void move(const Instance& instance, const Segment& segment, std::int64_t group) {
    const bool reads = instance.action != Action::kFetch,
               writes = instance.action != Action::kSpill;
    SUREFIT_CHECK(instance.inputs.size() == (reads ? 1U : 0U) &&
                      instance.outputs.size() == (writes ? 1U : 0U),
                  "operands of a move");
    const Buffer& moved = buffer(reads ? instance.inputs[0] : instance.outputs[0]);
    if (moved.sample_bytes == 0 && group > 0) return;
    std::pair<std::size_t, std::size_t> from{}, to{};
    if (reads) {
      from = range(moved, segment, group);
      SUREFIT_CHECK(arena_.first_other(from.first, from.second, tag(moved, group)) == from.second,
                    "'{}' is moved, but its memory holds something else", moved.name);
    }
    if (writes) {
      const Buffer& target = buffer(instance.outputs[0]);
      to = range(target, segment, group);
      SUREFIT_CHECK(target.value == moved.value, "'{}' is moved into the buffer of '{}'",
                    moved.name, target.name);
      if (reads) {
        SUREFIT_CHECK(
            target.half != moved.half && target.half == (instance.action == Action::kShrink),
            "'{}': form", moved.name);
        SUREFIT_CHECK(to.second <= from.first || from.second <= to.first,
                      "'{}' is moved onto itself", moved.name);
      }
    }
    if (instance.action == Action::kSpill || instance.action == Action::kFetch) {
      SUREFIT_CHECK(!moved.half, "'{}' goes to the file in its own form", moved.name);
      const std::int64_t first = moved.sample_bytes == 0 ? 0 : group * segment.group;
      const std::size_t begin =
          instance.file_offset + static_cast<std::size_t>(first) * moved.sample_bytes;
      const auto& memory = reads ? from : to;
      const std::size_t end = begin + (memory.second - memory.first);
      SUREFIT_CHECK(end <= plan_.file_bytes, "'{}' lies outside the file", moved.name);
      if (writes) {
        SUREFIT_CHECK(file_.first_other(begin, end, tag_of(moved.value, 0)) == end,
                      "'{}' is fetched before it is spilled", moved.name);
      } else {
        file_.write(begin, end, tag_of(moved.value, 0));
      }
    }
    if (writes) arena_.write(to.first, to.second, tag(buffer(instance.outputs[0]), group));
  }

  void check_read(const Instance& instance, const Node& node, std::size_t i, const Segment& segment,
                  std::int64_t group) {
    const Buffer& b = buffer(instance.inputs[i]);
    SUREFIT_CHECK(!b.half, "{} of layer {} reads the 16-bit form of '{}'", node.op->kind(),
                  node.layer, b.name);
    SUREFIT_CHECK(b.value == graph_.root(node.inputs[i]),
                  "{} of layer {} reads '{}' from the buffer of '{}'", node.op->kind(), node.layer,
                  graph_.value(node.inputs[i]).name, b.name);
    if (b.persistent) {
      SUREFIT_CHECK(!updated_.contains(b.value), "{} reads '{}' after its update", node.op->kind(),
                    b.name);
      for (const int position : node.op->mutated_inputs()) {
        if (static_cast<std::size_t>(position) == i) updated_.insert(b.value);
      }
      return;
    }
    const auto [begin, end] = range(b, segment, group);
    const std::size_t other = arena_.first_other(begin, end, tag(b, group));
    SUREFIT_CHECK(other == end, "{} of layer {} reads '{}' at {}, but byte {} holds something else",
                  node.op->kind(), node.layer, b.name, begin, other);
  }

  // An output may touch no other operand, except the one input it may replace, and that exactly.
  void check_exclusive(const Instance& instance, const Node& node, const OpTraits& traits,
                       std::size_t output, std::size_t begin, std::size_t end,
                       const Segment& segment, std::int64_t group,
                       const std::vector<std::pair<std::size_t, std::size_t>>& exclusive) const {
    for (const auto& [from, to] : exclusive) {
      SUREFIT_CHECK(end <= from || to <= begin,
                    "{} of layer {} writes into its own scratch or twice", node.op->kind(),
                    node.layer);
    }
    for (std::size_t i = 0; i < instance.inputs.size(); ++i) {
      const Buffer& b = buffer(instance.inputs[i]);
      if (b.persistent) continue;
      const auto [from, to] = range(b, segment, group);
      if (end <= from || to <= begin) continue;
      const bool replaced = static_cast<int>(output) == traits.in_place_output &&
                            traits.in_place_input == static_cast<int>(i) && from == begin &&
                            to == end && buffer(instance.outputs[output]).sample_bytes > 0;
      SUREFIT_CHECK(replaced, "{} of layer {} overwrites its input '{}'", node.op->kind(),
                    node.layer, b.name);
    }
  }

  void check_kept(ValueId id) const {
    const ValueId owner = graph_.root(id);
    bool found = false;
    for (const Buffer& b : plan_.buffers) {
      if (b.value != owner || b.persistent) continue;
      found = found ||
              arena_.first_other(b.offset, b.offset + b.bytes, tag(b, 0)) == b.offset + b.bytes;
    }
    SUREFIT_CHECK(found, "'{}' does not survive to the end of the step", graph_.value(id).name);
  }

  const Graph& graph_;
  const Plan& plan_;
  std::vector<OpTraits> traits_;
  ShadowArena arena_, file_;
  std::map<NodeId, int> runs_;
  std::set<NodeId> forward_;  // nodes of the forward pass that have samples left
  std::set<ValueId> updated_;
};

}  // namespace

void verify(const Graph& graph, const Plan& plan) {
  const std::optional<Graph> other = graph.in_form(plan.form, plan.batch);
  Verifier(other ? *other : graph, plan).run();
}

}  // namespace surefit
