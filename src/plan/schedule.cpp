// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "base/check.hpp"

namespace surefit {
namespace {

// Instances that share a loop over groups.
struct Part {
  std::int64_t group = 0;
  std::vector<Instance> steps;
};

class Scheduler {
 public:
  Scheduler(const Graph& graph, const std::vector<OpTraits>& traits, const PlanOptions& options,
            Plan& plan)
      : graph_(graph),
        traits_(traits),
        options_(options),
        plan_(plan),
        original_(graph.values().size(), kNone) {}

  void run() {
    make_parts();
    for (Part& part : parts_) {
      if (part.group < options_.batch) {
        split_passes(part);
      } else {
        passes_.push_back(std::move(part));
      }
    }
    place_updates();
    emit();
    // An input that is kept but not read has its place all the same.
    for (const ValueId id : graph_.kept()) original(graph_.root(id));
  }

 private:
  const OpTraits& traits(NodeId node) const { return traits_[static_cast<std::size_t>(node)]; }
  Saving saving(ValueId value) const {
    return options_.saving.empty() ? Saving::kKeep
                                   : options_.saving[static_cast<std::size_t>(value)];
  }
  bool whole(const Part& part) const { return part.group >= options_.batch; }

  static std::size_t index(int copy) { return static_cast<std::size_t>(copy); }

  int new_copy(ValueId value) {
    Buffer buffer;
    buffer.value = value;
    plan_.buffers.push_back(buffer);
    return static_cast<int>(plan_.buffers.size()) - 1;
  }

  int original(ValueId value) {
    int& copy = original_[static_cast<std::size_t>(value)];
    if (copy == kNone) copy = new_copy(value);
    return copy;
  }

  // Forward parts in order, then backward parts in reverse; the last stretch's halves meet in one
  // part.
  void make_parts() {
    std::vector<Stretch> stretches = options_.stretches;
    if (stretches.empty())
      stretches.push_back({static_cast<NodeId>(graph_.nodes().size()), options_.group});
    for (Stretch& stretch : stretches) {
      stretch.group = stretch.group <= 0 ? options_.batch : std::min(stretch.group, options_.batch);
    }
    const std::size_t count = stretches.size();
    std::vector<std::vector<NodeId>> forward(count), backward(count);
    for (const Node& node : graph_.nodes()) {
      if (node.phase == Phase::kUpdate) {
        updates_.push_back(node.id);
        continue;
      }
      const bool back = node.phase == Phase::kBackward;
      const NodeId at = back ? node.source : node.id;
      std::size_t stretch = count - 1;
      if (at != kNone) {
        const auto after = std::upper_bound(stretches.begin(), stretches.end(), at,
                                            [](NodeId id, const Stretch& s) { return id < s.end; });
        stretch =
            std::min<std::size_t>(static_cast<std::size_t>(after - stretches.begin()), count - 1);
      }
      (back ? backward : forward)[stretch].push_back(node.id);
    }
    for (std::size_t k = 0; k < count; ++k) {
      parts_.push_back({stretches[k].group, {}});
      for (const NodeId id : forward[k]) run_node(id, parts_.back(), false);
    }
    store();
    for (std::size_t k = count; k-- > 0;) {
      if (k + 1 < count) {
        // What a loop restored for one group is of no use behind it.
        if (!whole(parts_.back()) || stretches[k].group < options_.batch) restored_.clear();
        parts_.push_back({stretches[k].group, {}});
      }
      for (const NodeId id : backward[k]) run_node(id, parts_.back(), true);
    }
  }

  void run_node(NodeId id, Part& part, bool backward) {
    const Node& node = graph_.node(id);
    Instance step;
    step.node = id;
    for (const ValueId input : node.inputs)
      step.inputs.push_back(copy_to_read(graph_.root(input), part, backward));
    for (const ValueId output : node.outputs) step.outputs.push_back(original(output));
    part.steps.push_back(std::move(step));
  }

  int copy_to_read(ValueId value, Part& part, bool backward) {
    const Saving how = saving(value);
    if (!backward || how == Saving::kKeep) return original(value);
    if (const auto found = restored_.find(value); found != restored_.end()) return found->second;
    SUREFIT_CHECK(restorable(graph_, traits_, value), "'{}' cannot be restored",
                  graph_.value(value).name);
    Instance step;
    step.again = true;
    step.node = graph_.value(value).producer;
    if (how == Saving::kRecompute) {
      const Node& node = graph_.node(step.node);
      for (const ValueId input : node.inputs)
        step.inputs.push_back(copy_to_read(graph_.root(input), part, true));
      for (const ValueId output : node.outputs) {
        step.outputs.push_back(new_copy(output));
        if (saving(output) != Saving::kKeep) restored_[output] = step.outputs.back();
      }
    } else {
      const Stored& stored = stored_.at(value);
      step.action = how == Saving::kSpill ? Action::kFetch : Action::kExpand;
      step.file_offset = stored.file_offset;
      if (how == Saving::kHalf) step.inputs.push_back(stored.half);
      step.outputs.push_back(new_copy(value));
      restored_[value] = step.outputs.back();
    }
    part.steps.push_back(std::move(step));
    return restored_.at(value);
  }

  // Behind the last forward reader of each value that goes to a file or to half its size.
  void store() {
    if (options_.saving.empty()) return;
    // Of each copy: part, step.
    std::vector<std::pair<std::size_t, std::size_t>> last(plan_.buffers.size());
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      for (std::size_t s = 0; s < parts_[p].steps.size(); ++s) {
        for (const int copy : parts_[p].steps[s].inputs) last[index(copy)] = {p, s};
        for (const int copy : parts_[p].steps[s].outputs) last[index(copy)] = {p, s};
      }
    }
    std::vector<std::vector<std::vector<Instance>>> behind(parts_.size());
    for (std::size_t p = 0; p < parts_.size(); ++p) behind[p].resize(parts_[p].steps.size());
    for (const Value& value : graph_.values()) {
      const Saving how = saving(value.id);
      const int copy = original_[static_cast<std::size_t>(value.id)];
      if ((how != Saving::kSpill && how != Saving::kHalf) || copy == kNone) continue;
      Instance step;
      step.node = value.producer;
      step.inputs.push_back(copy);
      Stored stored;
      if (how == Saving::kSpill) {
        step.action = Action::kSpill;
        stored.file_offset = step.file_offset = plan_.file_bytes;
        const std::size_t samples =
            value.type.batched ? static_cast<std::size_t>(options_.batch) : 1;
        plan_.file_bytes +=
            round_up(static_cast<std::int64_t>(value.type.stored_bytes() * samples), 4096);
      } else {
        step.action = Action::kShrink;
        stored.half = new_copy(value.id);
        plan_.buffers.back().half = true;
        step.outputs.push_back(stored.half);
      }
      stored_[value.id] = stored;
      const auto [p, s] = last[index(copy)];
      behind[p][s].push_back(std::move(step));
    }
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      std::vector<Instance> steps;
      for (std::size_t s = 0; s < parts_[p].steps.size(); ++s) {
        steps.push_back(std::move(parts_[p].steps[s]));
        for (Instance& more : behind[p][s]) steps.push_back(std::move(more));
      }
      parts_[p].steps = std::move(steps);
    }
  }

  // A loop over groups must end where a sum over the batch is read: its readers wait for the last
  // group. Each step runs in the first pass that has all it needs; what is restored, in the pass of
  // its first reader.
  void split_passes(Part& part) {
    const auto count = part.steps.size();
    std::vector<int> pass(count, 0);
    std::unordered_map<int, std::size_t> writer;        // copy -> step
    std::unordered_map<std::size_t, std::size_t> file;  // file offset -> step
    const auto is_sum = [&](int copy, std::size_t s) {
      return part.steps[s].action == Action::kRun &&
             traits(part.steps[s].node).role == BatchRole::kReduction &&
             !graph_.value(plan_.buffers[index(copy)].value).type.batched;
    };
    int forward = 0;  // the pass that ends the forward pass
    for (std::size_t s = 0; s < count; ++s) {
      const Instance& step = part.steps[s];
      for (const int copy : step.inputs) {
        if (const auto found = writer.find(copy); found != writer.end()) {
          pass[s] = std::max(pass[s], pass[found->second] + (is_sum(copy, found->second) ? 1 : 0));
        }
      }
      const Node& node = graph_.node(step.node);
      if (node.phase == Phase::kForward && !step.again) forward = std::max(forward, pass[s]);
      if (!node.op->pure()) pass[s] = std::max(pass[s], forward);
      if (step.action == Action::kFetch && file.contains(step.file_offset)) {
        pass[s] = std::max(pass[s], pass[file.at(step.file_offset)]);
      }
      if (step.action == Action::kSpill) file[step.file_offset] = s;
      for (const int copy : step.outputs) writer[copy] = s;
    }
    std::unordered_map<int, int> wanted;  // copy -> the earliest pass that reads it
    for (std::size_t s = count; s-- > 0;) {
      const Instance& step = part.steps[s];
      if (step.again) {
        int first = std::numeric_limits<int>::max();
        for (const int copy : step.outputs) {
          if (wanted.contains(copy)) first = std::min(first, wanted.at(copy));
        }
        if (first != std::numeric_limits<int>::max()) pass[s] = std::max(pass[s], first);
      }
      for (const int copy : step.inputs) {
        const auto [found, fresh] = wanted.try_emplace(copy, pass[s]);
        if (!fresh) found->second = std::min(found->second, pass[s]);
      }
    }
    const int passes = count == 0 ? 0 : *std::max_element(pass.begin(), pass.end()) + 1;
    for (int p = 0; p < passes; ++p) {
      Part next{part.group, {}};
      bool batched = false;
      std::int64_t grain = 1;
      for (std::size_t s = 0; s < count; ++s) {
        if (pass[s] != p) continue;
        if (part.steps[s].action == Action::kRun) {
          const OpTraits& t = traits(part.steps[s].node);
          batched = batched || t.role != BatchRole::kBatchFree;
          grain = std::lcm(grain, std::int64_t{t.sample_grain});
        } else {
          batched = true;
        }
        next.steps.push_back(std::move(part.steps[s]));
      }
      if (next.steps.empty()) continue;
      next.group = batched ? std::min(round_up(part.group, grain), options_.batch) : options_.batch;
      passes_.push_back(std::move(next));
    }
  }

  // Each update runs as soon as its gradient is whole and nobody needs the old parameter; behind
  // the loop where the last of these is in a loop, because a later group would see the new
  // parameter. None runs before the forward pass is complete: a bad loss must be seen while
  // everything is as it was.
  void place_updates() {
    using Place = std::pair<std::size_t, std::size_t>;  // pass, steps of it that run before
    std::vector<Place> written(plan_.buffers.size()), touched(plan_.buffers.size());
    std::unordered_set<NodeId> seen;  // what runs again later is restored, not new
    Place forward{0, 0};
    for (std::size_t p = 0; p < passes_.size(); ++p) {
      const std::size_t end = passes_[p].steps.size();
      for (std::size_t s = 0; s < end; ++s) {
        const Place place{p, whole(passes_[p]) ? s + 1 : end};
        const NodeId node = passes_[p].steps[s].node;
        if (node != kNone && graph_.node(node).phase == Phase::kForward && seen.insert(node).second)
          forward = place;
        for (const int copy : passes_[p].steps[s].outputs)
          written[index(copy)] = touched[index(copy)] = place;
        for (const int copy : passes_[p].steps[s].inputs)
          touched[index(copy)] = std::max(touched[index(copy)], place);
      }
    }
    behind_.resize(passes_.size());
    for (std::size_t p = 0; p < passes_.size(); ++p) behind_[p].resize(passes_[p].steps.size() + 1);
    for (const NodeId id : updates_) {
      const Node& node = graph_.node(id);
      Instance step;
      step.node = id;
      for (const ValueId input : node.inputs) step.inputs.push_back(original(graph_.root(input)));
      for (const ValueId output : node.outputs) step.outputs.push_back(original(output));
      written.resize(plan_.buffers.size());
      touched.resize(plan_.buffers.size());
      Place place = forward;
      for (const int copy : step.inputs) place = std::max(place, written[index(copy)]);
      for (const int position : node.op->mutated_inputs())
        place = std::max(place, touched[index(step.inputs[index(position)])]);
      for (const int copy : step.outputs) written[index(copy)] = touched[index(copy)] = place;
      for (const int copy : step.inputs)
        touched[index(copy)] = std::max(touched[index(copy)], place);
      if (behind_.empty()) {
        behind_.resize(1, std::vector<std::vector<Instance>>(1));
        passes_.push_back({options_.batch, {}});
      }
      behind_[place.first][place.second].push_back(std::move(step));
    }
  }

  // Joins neighbours that run over the whole batch into one segment.
  void emit() {
    const auto append = [&](std::int64_t group, Instance step) {
      const int at = static_cast<int>(plan_.instances.size());
      const bool joins = !plan_.segments.empty() && plan_.segments.back().end == at && open_ &&
                         plan_.segments.back().group == group;
      if (!joins) plan_.segments.push_back({at, at, group});
      open_ = true;
      ++plan_.segments.back().end;
      plan_.instances.push_back(std::move(step));
    };
    for (std::size_t p = 0; p < passes_.size(); ++p) {
      Part& pass = passes_[p];
      const bool loop = !whole(pass);
      if (loop) open_ = false;
      for (std::size_t s = 0; s <= pass.steps.size(); ++s) {
        if (loop && s == pass.steps.size()) open_ = false;
        for (Instance& update : behind_[p][s]) append(options_.batch, std::move(update));
        if (s < pass.steps.size()) append(pass.group, std::move(pass.steps[s]));
      }
    }
  }

  struct Stored {
    std::size_t file_offset = 0;
    int half = kNone;
  };

  const Graph& graph_;
  const std::vector<OpTraits>& traits_;
  const PlanOptions& options_;
  Plan& plan_;
  std::vector<int> original_;                  // by value: its first copy
  std::unordered_map<ValueId, int> restored_;  // the copy that backward nodes may read now
  std::unordered_map<ValueId, Stored> stored_;
  std::vector<Part> parts_, passes_;
  std::vector<NodeId> updates_;
  std::vector<std::vector<std::vector<Instance>>> behind_;  // updates, by pass and step
  bool open_ = false;                                       // the last segment may grow
};

}  // namespace

std::vector<OpTraits> traits_of(const Graph& graph) {
  std::vector<OpTraits> traits;
  for (const Node& node : graph.nodes()) {
    traits.push_back(node.op->traits(graph.input_types(node), graph.output_types(node)));
  }
  return traits;
}

bool restorable(const Graph& graph, const std::vector<OpTraits>& traits, ValueId value) {
  const Value& what = graph.value(value);
  if (what.origin != Origin::kNode || what.view_of != kNone || what.producer == kNone) return false;
  const Node& node = graph.node(what.producer);
  return node.phase == Phase::kForward && node.op->pure() &&
         traits[static_cast<std::size_t>(node.id)].role != BatchRole::kReduction;
}

void make_schedule(const Graph& graph, const std::vector<OpTraits>& traits,
                   const PlanOptions& options, Plan& plan) {
  Scheduler(graph, traits, options, plan).run();
}

}  // namespace surefit
