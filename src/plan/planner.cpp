// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "base/check.hpp"
#include "plan/pack.hpp"
#include "plan/plan.hpp"

namespace surefit {
namespace {

class Planner {
 public:
  Planner(const Graph& graph, const PlanOptions& options) : graph_(graph), options_(options) {
    for (const Node& node : graph.nodes()) {
      traits_.push_back(node.op->traits(graph.input_types(node), graph.output_types(node)));
    }
  }

  Plan run() {
    plan_.batch = options_.batch;
    plan_.threads = options_.threads;
    order_nodes();
    cut_segments();
    make_instances();
    share_in_place();
    add_scratch();
    pack_arena();
    return std::move(plan_);
  }

 private:
  const OpTraits& traits(NodeId node) const { return traits_[static_cast<std::size_t>(node)]; }

  // With early updates each update moves up to right behind the last node that needs the old
  // parameter or produces the gradient; otherwise the graph's own order stands.
  void order_nodes() {
    const auto count = graph_.nodes().size();
    std::vector<std::pair<NodeId, NodeId>> keyed;  // (place, node): stable among equals
    std::vector<NodeId> ready(count, 0);
    const auto readers = graph_.readers();
    for (const Node& node : graph_.nodes()) {
      NodeId place = node.id;
      if (options_.early_update && node.phase == Phase::kUpdate) {
        place = 0;
        for (const ValueId id : node.inputs) {
          const Value& value = graph_.value(graph_.root(id));
          if (value.producer != kNone)
            place = std::max(place, ready[static_cast<std::size_t>(value.producer)]);
        }
        for (const int position : node.op->mutated_inputs()) {
          const ValueId mutated = graph_.root(node.inputs[static_cast<std::size_t>(position)]);
          for (const NodeId reader : readers[static_cast<std::size_t>(mutated)]) {
            if (reader != node.id) place = std::max(place, ready[static_cast<std::size_t>(reader)]);
          }
        }
      }
      ready[static_cast<std::size_t>(node.id)] = place;
      keyed.emplace_back(place, node.id);
    }
    std::stable_sort(keyed.begin(), keyed.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [place, node] : keyed) order_.push_back(node);
  }

  std::int64_t choose_group() const {
    if (options_.group > 0) return std::min(options_.group, options_.batch);
    return options_.batch;
  }

  // Groups are cut where a sum over the batch is needed: its readers must wait for the last group.
  // Everything in between may stay in one segment.
  void cut_segments() {
    const std::int64_t group = choose_group();
    const int count = static_cast<int>(order_.size());
    if (group >= options_.batch) {
      plan_.segments.push_back({0, count, options_.batch});
      return;
    }
    std::unordered_set<ValueId> incomplete;  // sums of the current segment
    bool looped = false;
    int begin = 0;
    for (int i = 0; i < count; ++i) {
      const Node& node = graph_.node(order_[static_cast<std::size_t>(i)]);
      const bool waits = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
        return incomplete.contains(graph_.root(id));
      });
      // A later group would see the parameter after its update.
      if (waits || (looped && !node.op->pure())) {
        close_segment(begin, i, group);
        begin = i;
        incomplete.clear();
        looped = false;
      }
      looped = looped || traits(node.id).role != BatchRole::kBatchFree;
      if (traits(node.id).role == BatchRole::kReduction) {
        for (const ValueId id : node.outputs) incomplete.insert(graph_.root(id));
      }
    }
    close_segment(begin, count, group);
  }

  void close_segment(int begin, int end, std::int64_t group) {
    if (begin == end) return;
    bool batched = false;
    std::int64_t grain = 1;
    for (int i = begin; i < end; ++i) {
      const OpTraits& t = traits(order_[static_cast<std::size_t>(i)]);
      batched = batched || t.role != BatchRole::kBatchFree;
      if (t.role == BatchRole::kReduction) grain = std::lcm(grain, std::int64_t{t.sample_grain});
    }
    std::int64_t size = batched ? round_up(group, grain) : options_.batch;
    plan_.segments.push_back({begin, end, std::min(size, options_.batch)});
  }

  // The segment that an instance belongs to.
  int segment_of(int instance) const {
    const auto after = std::upper_bound(plan_.segments.begin(), plan_.segments.end(), instance,
                                        [](int at, const Segment& s) { return at < s.begin; });
    return static_cast<int>(after - plan_.segments.begin()) - 1;
  }

  void make_instances() {
    // Where each value is written and last read, by segment: a batched value that stays inside one
    // looped segment needs room for one group only.
    const auto values = graph_.values().size();
    std::vector<int> written(values, kNone), first_use(values, kNone), last_use(values, kNone);
    std::vector<bool> crosses(values, false);
    for (int i = 0; i < static_cast<int>(order_.size()); ++i) {
      const Node& node = graph_.node(order_[static_cast<std::size_t>(i)]);
      for (const ValueId id : node.outputs) written[static_cast<std::size_t>(id)] = i;
      for (const ValueId id : node.inputs) {
        const auto owner = static_cast<std::size_t>(graph_.root(id));
        if (first_use[owner] == kNone) first_use[owner] = i;
        last_use[owner] = i;
        if (written[owner] == kNone || segment_of(written[owner]) != segment_of(i))
          crosses[owner] = true;
      }
    }
    const int end = static_cast<int>(order_.size()) - 1;
    for (const ValueId id : graph_.kept()) {
      crosses[static_cast<std::size_t>(graph_.root(id))] = true;
      last_use[static_cast<std::size_t>(graph_.root(id))] = end;
    }
    std::unordered_map<ValueId, int> buffer_of;
    for (const Value& value : graph_.values()) {
      const auto at = static_cast<std::size_t>(value.id);
      if (value.view_of != kNone) continue;
      if (value.origin == Origin::kNode && written[at] == kNone) continue;   // fused away
      if (value.origin != Origin::kNode && last_use[at] == kNone) continue;  // nobody reads it
      buffer_of[value.id] = static_cast<int>(plan_.buffers.size());
      plan_.buffers.push_back(make_buffer(value, written[at], last_use[at], crosses[at]));
    }
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      Instance instance;
      instance.node = id;
      for (const ValueId input : node.inputs)
        instance.inputs.push_back(buffer_of.at(graph_.root(input)));
      for (const ValueId output : node.outputs) instance.outputs.push_back(buffer_of.at(output));
      plan_.instances.push_back(std::move(instance));
    }
  }

  Buffer make_buffer(const Value& value, int written, int last_use, bool crosses) const {
    Buffer buffer;
    buffer.value = value.id;
    buffer.name = value.name;
    buffer.layer = value.producer == kNone ? value.name : graph_.node(value.producer).layer;
    buffer.category = value.category;
    buffer.persistent = value.origin == Origin::kPersistent;
    buffer.first = written == kNone ? 0 : written;
    buffer.last = std::max(last_use, buffer.first);
    const Segment* home =
        written == kNone ? nullptr : &plan_.segments[static_cast<std::size_t>(segment_of(written))];
    const bool local = home != nullptr && !crosses;
    if (value.type.batched) {
      buffer.sample_bytes = value.type.stored_bytes();
      buffer.samples = local ? home->group : options_.batch;
      buffer.bytes = buffer.sample_bytes * static_cast<std::size_t>(buffer.samples);
    } else {
      buffer.bytes = value.type.stored_bytes();
    }
    // In a segment of several groups, whatever is not local to one group must outlive all of them.
    if (home != nullptr && home->group < options_.batch && !(local && value.type.batched)) {
      buffer.first = home->begin;
      buffer.last = std::max(buffer.last, home->end - 1);
    }
    const Segment& final = plan_.segments[static_cast<std::size_t>(segment_of(buffer.last))];
    if (final.group < options_.batch && !(local && value.type.batched))
      buffer.last = std::max(buffer.last, final.end - 1);
    return buffer;
  }

  // Lets an output take over the memory of an input that nobody reads afterwards.
  void share_in_place() {
    if (!options_.allow_in_place || !options_.allow_sharing) return;
    std::vector<int> last_reader(plan_.buffers.size(), kNone);
    for (int i = 0; i < static_cast<int>(plan_.instances.size()); ++i) {
      for (const int b : plan_.instances[static_cast<std::size_t>(i)].inputs)
        last_reader[static_cast<std::size_t>(b)] = i;
    }
    for (int i = 0; i < static_cast<int>(plan_.instances.size()); ++i) {
      const Instance& instance = plan_.instances[static_cast<std::size_t>(i)];
      const OpTraits& t = traits(instance.node);
      if (t.in_place_input == kNone || t.role != BatchRole::kPerSample) continue;
      const int source = instance.inputs[static_cast<std::size_t>(t.in_place_input)];
      const int target = instance.outputs[0];
      const Buffer& from = plan_.buffers[static_cast<std::size_t>(source)];
      const Buffer& to = plan_.buffers[static_cast<std::size_t>(target)];
      const bool once = std::count(instance.inputs.begin(), instance.inputs.end(), source) == 1;
      const bool dies = last_reader[static_cast<std::size_t>(source)] == i && !kept(from.value);
      if (!once || !dies || from.persistent || graph_.value(from.value).origin == Origin::kInput ||
          from.bytes != to.bytes || from.samples != to.samples) {
        continue;
      }
      aliases_.emplace_back(source, target);
    }
  }

  bool kept(ValueId id) const {
    return std::any_of(graph_.kept().begin(), graph_.kept().end(),
                       [&](ValueId other) { return graph_.root(other) == id; });
  }

  void add_scratch() {
    for (int i = 0; i < static_cast<int>(plan_.instances.size()); ++i) {
      Instance& instance = plan_.instances[static_cast<std::size_t>(i)];
      const OpTraits& t = traits(instance.node);
      const auto add = [&](std::size_t bytes, const char* what) {
        if (bytes == 0) return kNone;
        Buffer buffer;
        const Node& node = graph_.node(instance.node);
        buffer.name = fmt::format("{}/{} {}", node.layer, node.op->kind(), what);
        buffer.layer = node.layer;
        buffer.category = Category::kScratch;
        buffer.bytes = bytes;
        buffer.first = buffer.last = i;
        plan_.buffers.push_back(buffer);
        return static_cast<int>(plan_.buffers.size()) - 1;
      };
      instance.thread_scratch =
          add(static_cast<std::size_t>(
                  round_up(static_cast<std::int64_t>(t.thread_scratch_bytes), kBufferAlignment)) *
                  static_cast<std::size_t>(options_.threads),
              "thread scratch");
      instance.shared_scratch = add(t.shared_scratch_bytes, "scratch");
    }
  }

  // Buffers joined in place are packed as one item over their joint lifetime.
  void pack_arena() {
    std::vector<int> leader(plan_.buffers.size());
    std::iota(leader.begin(), leader.end(), 0);
    for (const auto& [source, target] : aliases_) {
      leader[static_cast<std::size_t>(target)] = leader[static_cast<std::size_t>(source)];
    }
    std::vector<PackItem> items;
    std::unordered_map<int, std::size_t> item_of;
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      const Buffer& buffer = plan_.buffers[b];
      if (buffer.persistent) continue;
      const int first = options_.allow_sharing ? buffer.first : 0;
      const int last = options_.allow_sharing ? buffer.last : static_cast<int>(order_.size());
      const auto [found, fresh] = item_of.try_emplace(leader[b], items.size());
      if (fresh) {
        items.push_back({buffer.bytes, first, last, 0});
      } else {
        PackItem& item = items[found->second];
        item.first = std::min(item.first, first);
        item.last = std::max(item.last, last);
      }
    }
    plan_.arena_bytes = pack(items);
    plan_.max_live_bytes = max_live(items, &plan_.peak_instance);
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      if (!plan_.buffers[b].persistent)
        plan_.buffers[b].offset = items[item_of.at(leader[b])].offset;
    }
  }

  const Graph& graph_;
  const PlanOptions& options_;
  std::vector<OpTraits> traits_;
  std::vector<NodeId> order_;
  std::vector<std::pair<int, int>> aliases_;  // (source, target), in execution order
  Plan plan_;
};

}  // namespace

std::uint64_t Plan::predicted_bytes() const {
  std::uint64_t sum = 0;
  for (const LedgerEntry& entry : ledger) sum += entry.bytes;
  return sum;
}

std::array<std::uint64_t, kCategoryCount> Plan::by_category() const {
  std::array<std::uint64_t, kCategoryCount> sums{};
  for (const LedgerEntry& entry : ledger)
    sums[static_cast<std::size_t>(entry.category)] += entry.bytes;
  return sums;
}

Plan make_plan(const Graph& graph, const PlanOptions& options) {
  if (options.batch < 1)
    throw ConfigError(fmt::format("[batch_size] expected at least 1; got {}", options.batch));
  if (options.threads < 1)
    throw ConfigError(fmt::format("[threads] expected at least 1; got {}", options.threads));
  graph.check();
  PlanOptions checked = options;
  if (checked.early_update) checked.group = options.batch;
  Plan plan = Planner(graph, checked).run();
  verify(graph, plan);
  return plan;
}

}  // namespace surefit
