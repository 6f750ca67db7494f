// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "base/check.hpp"
#include "plan/pack.hpp"
#include "plan/schedule.hpp"
#include "plan/sketch.hpp"

namespace surefit {
namespace {

class Planner {
 public:
  Planner(const Graph& graph, const std::vector<OpTraits>& traits, const PlanOptions& options)
      : graph_(graph), options_(options), traits_(traits) {}

  Plan run(bool packed) {
    plan_.batch = options_.batch;
    plan_.threads = options_.threads;
    make_schedule(graph_, traits_, options_, plan_);
    measure_buffers();
    share_in_place();
    add_scratch();
    pack_arena(packed);
    if (packed) name_all();
    return std::move(plan_);
  }

 private:
  const OpTraits& traits(NodeId node) const { return traits_[static_cast<std::size_t>(node)]; }

  // The segment that an instance belongs to.
  const Segment& segment_of(int instance) const {
    const auto after = std::upper_bound(plan_.segments.begin(), plan_.segments.end(), instance,
                                        [](int at, const Segment& s) { return at < s.begin; });
    return *std::prev(after);
  }

  // Size and lifetime of every copy. A batched one that stays inside one looped segment needs room
  // for one group only.
  void measure_buffers() {
    const auto count = plan_.buffers.size();
    std::vector<int> written(count, kNone), last_use(count, kNone);
    std::vector<bool> crosses(count, false);
    for (int i = 0; i < static_cast<int>(plan_.instances.size()); ++i) {
      const Instance& instance = plan_.instances[static_cast<std::size_t>(i)];
      for (const int b : instance.outputs) written[static_cast<std::size_t>(b)] = i;
      for (const int b : instance.inputs) {
        const auto at = static_cast<std::size_t>(b);
        last_use[at] = i;
        if (written[at] == kNone || &segment_of(written[at]) != &segment_of(i)) crosses[at] = true;
      }
    }
    std::unordered_set<ValueId> kept;
    for (const ValueId id : graph_.kept()) kept.insert(graph_.root(id));
    for (std::size_t b = 0; b < count; ++b) {
      // The first copy is the one that the forward pass wrote.
      if (kept.erase(plan_.buffers[b].value) > 0) {
        crosses[b] = true;
        last_use[b] = static_cast<int>(plan_.instances.size()) - 1;
      }
      measure(plan_.buffers[b], written[b], last_use[b], crosses[b]);
    }
  }

  void measure(Buffer& buffer, int written, int last_use, bool crosses) const {
    const Value& value = graph_.value(buffer.value);
    buffer.category = value.category;
    buffer.persistent = value.origin == Origin::kPersistent;
    buffer.first = written == kNone ? 0 : written;
    buffer.last = std::max(last_use, buffer.first);
    const Segment* home = written == kNone ? nullptr : &segment_of(written);
    const bool local = home != nullptr && !crosses;
    const std::size_t stored =
        buffer.half ? value.type.stored_count() * 2 : value.type.stored_bytes();
    if (value.type.batched) {
      buffer.sample_bytes = stored;
      buffer.samples = local ? home->group : options_.batch;
      buffer.bytes = buffer.sample_bytes * static_cast<std::size_t>(buffer.samples);
    } else {
      buffer.bytes = stored;
    }
    // In a segment of several groups, whatever is not local to one group must outlive all of them.
    if (local && value.type.batched) return;
    if (home != nullptr && home->group < options_.batch) {
      buffer.first = home->begin;
      buffer.last = std::max(buffer.last, home->end - 1);
    }
    const Segment& final = segment_of(buffer.last);
    if (final.group < options_.batch) buffer.last = std::max(buffer.last, final.end - 1);
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
      if (instance.action != Action::kRun) continue;
      const OpTraits& t = traits(instance.node);
      if (t.in_place_input == kNone) continue;
      const int source = instance.inputs[static_cast<std::size_t>(t.in_place_input)];
      const int target = instance.outputs[static_cast<std::size_t>(t.in_place_output)];
      const Buffer& from = plan_.buffers[static_cast<std::size_t>(source)];
      const Buffer& to = plan_.buffers[static_cast<std::size_t>(target)];
      const bool once = std::count(instance.inputs.begin(), instance.inputs.end(), source) == 1;
      const bool dies = last_reader[static_cast<std::size_t>(source)] == i && !kept(from.value);
      if (!once || !dies || from.persistent || graph_.value(from.value).origin == Origin::kInput ||
          to.sample_bytes == 0 || from.bytes != to.bytes || from.samples != to.samples) {
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
      if (instance.action != Action::kRun) continue;
      const OpTraits& t = traits(instance.node);
      const auto add = [&](std::size_t bytes) {
        if (bytes == 0) return kNone;
        Buffer buffer;
        buffer.category = Category::kScratch;
        buffer.bytes = bytes;
        buffer.first = buffer.last = i;
        plan_.buffers.push_back(buffer);
        return static_cast<int>(plan_.buffers.size()) - 1;
      };
      instance.thread_scratch =
          add(static_cast<std::size_t>(
                  round_up(static_cast<std::int64_t>(t.thread_scratch_bytes), kBufferAlignment)) *
              static_cast<std::size_t>(options_.threads));
      instance.shared_scratch = add(t.shared_scratch_bytes);
    }
  }

  // Not in sketches, of which a search makes thousands.
  void name_all() {
    for (Buffer& buffer : plan_.buffers) {
      if (buffer.value == kNone) continue;
      const Value& value = graph_.value(buffer.value);
      buffer.name = value.name;
      buffer.layer = value.producer == kNone ? value.name : graph_.node(value.producer).layer;
    }
    for (Instance& instance : plan_.instances) {
      const Node& node = graph_.node(instance.node);
      instance.layer = node.layer;
      instance.kind = node.op->kind();
      instance.phase = node.phase;
      const auto name_scratch = [&](int index, const char* what) {
        if (index == kNone) return;
        Buffer& buffer = plan_.buffers[static_cast<std::size_t>(index)];
        buffer.name = fmt::format("{}/{} {}", instance.layer, instance.kind, what);
        buffer.layer = instance.layer;
      };
      name_scratch(instance.thread_scratch, "thread scratch");
      name_scratch(instance.shared_scratch, "scratch");
    }
  }

  // Buffers joined in place are packed as one item over their joint lifetime.
  void pack_arena(bool packed) {
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
      const int last =
          options_.allow_sharing ? buffer.last : static_cast<int>(plan_.instances.size());
      const auto [found, fresh] = item_of.try_emplace(leader[b], items.size());
      if (fresh) {
        items.push_back({buffer.bytes, first, last, 0});
      } else {
        PackItem& item = items[found->second];
        item.first = std::min(item.first, first);
        item.last = std::max(item.last, last);
      }
    }
    plan_.max_live_bytes = max_live(items, &plan_.peak_instance);
    if (!packed) return;
    plan_.arena_bytes = pack(items);
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      if (!plan_.buffers[b].persistent)
        plan_.buffers[b].offset = items[item_of.at(leader[b])].offset;
    }
  }

  const Graph& graph_;
  const PlanOptions& options_;
  const std::vector<OpTraits>& traits_;
  std::vector<std::pair<int, int>> aliases_;  // (source, target), in execution order
  Plan plan_;
};

void check(const PlanOptions& options) {
  if (options.batch < 1)
    throw ConfigError(fmt::format("[batch_size] expected at least 1; got {}", options.batch));
  if (options.threads < 1)
    throw ConfigError(fmt::format("[threads] expected at least 1; got {}", options.threads));
}

}  // namespace

Plan make_plan(const Graph& graph, const PlanOptions& options) {
  check(options);
  if (const auto other = graph.in_form(options.form, options.batch)) {
    PlanOptions rest = options;
    rest.form = Form::kUsual;
    Plan plan = make_plan(*other, rest);
    plan.form = options.form;
    return plan;
  }
  graph.check();
  const std::vector<OpTraits> traits = traits_of(graph);
  Plan plan = Planner(graph, traits, options).run(true);
  verify(graph, plan);
  return plan;
}

Plan sketch_plan(const Graph& graph, const std::vector<OpTraits>& traits,
                 const PlanOptions& options) {
  return Planner(graph, traits, options).run(false);
}

}  // namespace surefit
