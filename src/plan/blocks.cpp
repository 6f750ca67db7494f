// SPDX-License-Identifier: Apache-2.0
#include "plan/blocks.hpp"

#include <algorithm>
#include <unordered_set>

#include "plan/cost.hpp"
#include "plan/schedule.hpp"

namespace surefit {
namespace {

constexpr std::size_t kMostBlocks =
    40;  // more are joined: the search must stay well under a second
constexpr std::size_t kLongestStretch = 10;  // blocks
constexpr std::size_t kMostPrefixes = 10;    // ways to recompute within a stretch

class ChainBuilder {
 public:
  ChainBuilder(const Graph& graph, const std::vector<OpTraits>& traits, std::int64_t batch,
               int threads)
      : graph_(graph), traits_(traits), batch_(batch), threads_(threads) {
    while (forward_ < static_cast<NodeId>(graph.nodes().size()) &&
           graph.node(forward_).phase == Phase::kForward) {
      ++forward_;
    }
    gather();
  }

  BlockChain run() {
    find_cuts();
    const std::size_t count = chain_.cuts.size();
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = i + 1; j <= std::min(count, i + kLongestStretch); ++j) add_stretch(i, j);
    }
    return std::move(chain_);
  }

 private:
  struct Use {
    NodeId last_forward = kNone;  // its last forward reader
    bool backward = false;        // a backward node reads it
  };
  const Use& use(ValueId value) const { return uses_[static_cast<std::size_t>(value)]; }
  double bytes(ValueId value, std::int64_t samples) const {
    const ValueType& type = graph_.value(value).type;
    return static_cast<double>(type.stored_bytes()) *
           (type.batched ? static_cast<double>(samples) : 1.0);
  }
  // Of what waits for the backward pass.
  double saved_bytes(ValueId value, std::int64_t samples) const {
    const NodeId producer = graph_.value(value).producer;
    const bool half =
        producer != kNone && traits_[static_cast<std::size_t>(producer)].half != Half::kNo;
    return bytes(value, samples) * (half ? 0.5 : 1.0);
  }
  double seconds(NodeId node, std::int64_t group) const {
    const double groups = static_cast<double>((batch_ + group - 1) / group);
    return node_seconds(graph_, node, traits_[static_cast<std::size_t>(node)], batch_, threads_,
                        groups);
  }

  void gather() {
    uses_.resize(graph_.values().size());
    backward_of_.resize(static_cast<std::size_t>(forward_));
    kept_.resize(graph_.values().size(), false);
    for (const ValueId id : graph_.kept()) kept_[static_cast<std::size_t>(graph_.root(id))] = true;
    for (const Node& node : graph_.nodes()) {
      for (const ValueId input : node.inputs) {
        Use& use = uses_[static_cast<std::size_t>(graph_.root(input))];
        if (node.phase == Phase::kForward) {
          use.last_forward = node.id;
        } else if (node.phase == Phase::kBackward) {
          use.backward = true;
        }
      }
      if (node.phase == Phase::kBackward && node.source != kNone && node.source < forward_) {
        backward_of_[static_cast<std::size_t>(node.source)].push_back(node.id);
      }
    }
  }

  // Batched results that pass from the nodes before `cut` to forward nodes behind it.
  std::vector<ValueId> crossing(NodeId cut) const {
    std::vector<ValueId> values;
    for (NodeId id = 0; id < cut; ++id) {
      for (const ValueId output : graph_.node(id).outputs) {
        if (graph_.value(output).type.batched && use(output).last_forward >= cut)
          values.push_back(output);
      }
    }
    return values;
  }

  double saved_bytes(NodeId begin, NodeId end) const {
    double sum = 0;
    for (NodeId id = begin; id < end; ++id) {
      for (const ValueId output : graph_.node(id).outputs) {
        if (use(output).backward) sum += bytes(output, batch_);
      }
    }
    return sum;
  }

  void find_cuts() {
    constexpr std::size_t kEnough = 6, kMostCrossing = 6;
    std::vector<std::size_t> crossings(static_cast<std::size_t>(forward_), 0);
    for (NodeId cut = 1; cut < forward_; ++cut)
      crossings[static_cast<std::size_t>(cut)] = crossing(cut).size();
    // A net with long skip connections has few articulation points; then more values may cross.
    for (std::size_t most = 1; most <= kMostCrossing; ++most) {
      chain_.cuts.clear();
      for (NodeId cut = 1; cut < forward_; ++cut) {
        const std::size_t here = crossings[static_cast<std::size_t>(cut)];
        if (here >= 1 && here <= most) chain_.cuts.push_back(cut);
      }
      if (chain_.cuts.size() + 1 >= kEnough) break;
    }
    chain_.cuts.push_back(forward_);
    // Too many: give up the cut between the two neighbours that save least together.
    while (chain_.cuts.size() > kMostBlocks) {
      std::size_t best = 0;
      double least = 0;
      for (std::size_t i = 0; i + 1 < chain_.cuts.size(); ++i) {
        const double joint = saved_bytes(i == 0 ? 0 : chain_.cuts[i - 1], chain_.cuts[i + 1]);
        if (i == 0 || joint < least) best = i, least = joint;
      }
      chain_.cuts.erase(chain_.cuts.begin() + static_cast<std::ptrdiff_t>(best));
    }
  }

  struct Saved {
    ValueId value = kNone;
    double seconds_per_byte = 0;
  };

  void add_stretch(std::size_t i, std::size_t j) {
    const NodeId begin = i == 0 ? 0 : chain_.cuts[i - 1], end = chain_.cuts[j - 1];
    const bool last = j == chain_.cuts.size();
    std::unordered_set<ValueId> leaving;  // later stretches start from these
    if (!last) {
      for (const ValueId value : crossing(end)) leaving.insert(value);
    }
    std::vector<Saved> saved;  // could be recomputed
    double stays = 0;          // could not
    bool barrier = false;  // a sum over the batch is read on the way: no loop over groups can cover
                           // the stretch
    std::int64_t grain = 1;
    for (NodeId id = begin; id < end; ++id) {
      const OpTraits& traits = traits_[static_cast<std::size_t>(id)];
      grain = std::max(grain, std::int64_t{traits.sample_grain});
      for (const ValueId output : graph_.node(id).outputs) {
        barrier = barrier || (traits.role == BatchRole::kReduction &&
                              (use(output).last_forward != kNone || use(output).backward));
      }
      for (const ValueId output : graph_.node(id).outputs) {
        if (leaving.contains(output)) {
          stays += bytes(output, batch_);
        } else if (use(output).backward) {
          if (restorable(graph_, traits_, output) && !kept_[static_cast<std::size_t>(output)]) {
            saved.push_back({output, seconds(id, batch_) / std::max(1.0, bytes(output, batch_))});
          } else {
            stays += bytes(output, batch_);
          }
        }
      }
    }
    std::stable_sort(saved.begin(), saved.end(), [](const Saved& a, const Saved& b) {
      return a.seconds_per_byte < b.seconds_per_byte;
    });
    for (std::int64_t group = batch_; group >= 1; group /= 2) {
      if ((barrier && group < batch_) || (group < grain && group < batch_)) break;
      add_prefixes(i, j, begin, end, group, last, saved, stays, leaving);
    }
  }

  void add_prefixes(std::size_t i, std::size_t j, NodeId begin, NodeId end, std::int64_t group,
                    bool last, const std::vector<Saved>& saved, double stays,
                    const std::unordered_set<ValueId>& leaving) {
    double looping = 0;  // time that the loop over groups costs
    double backward_peak = 0, unbatched_sum = 0, unbatched_most = 0, forward_peak = 0;
    const auto look = [&](NodeId id, double& peak) {
      if (group < batch_) looping += seconds(id, group) - seconds(id, batch_);
      const Node& node = graph_.node(id);
      double own = static_cast<double>(traits_[static_cast<std::size_t>(id)].shared_scratch_bytes) +
                   static_cast<double>(traits_[static_cast<std::size_t>(id)].thread_scratch_bytes) *
                       threads_;
      for (const ValueId input : node.inputs) {
        const Value& value = graph_.value(graph_.root(input));
        if (value.origin == Origin::kNode && value.type.batched) own += bytes(value.id, group);
      }
      for (const ValueId output : node.outputs) {
        const ValueType& type = graph_.value(output).type;
        if (type.batched) {
          own += bytes(output, group);
        } else {
          unbatched_sum += bytes(output, 1);
          unbatched_most = std::max(unbatched_most, bytes(output, 1));
        }
      }
      peak = std::max(peak, own);
    };
    for (NodeId id = begin; id < end; ++id) {
      look(id, forward_peak);
      for (const NodeId back : backward_of_[static_cast<std::size_t>(id)])
        look(back, backward_peak);
    }
    const bool loop = group < batch_;
    const double unbatched = loop ? unbatched_sum : unbatched_most;
    double boundary = 0;  // gradients that enter and leave the loop are there for the whole batch
    if (loop) {
      for (const ValueId value : leaving) boundary += bytes(value, batch_);
      if (begin > 0) {
        for (const ValueId value : crossing(begin)) boundary += bytes(value, batch_);
      }
    }
    const std::size_t stride =
        std::max<std::size_t>(1, (saved.size() + kMostPrefixes - 1) / kMostPrefixes);
    for (std::size_t drop = 0;; drop = std::min(saved.size(), drop + stride)) {
      add_option(i, j, begin, end, group, last && loop, saved, drop, leaving,
                 {stays, looping, std::max(forward_peak, backward_peak) + unbatched + boundary});
      if (drop == saved.size()) break;
    }
  }

  struct Common {
    double stays = 0, looping = 0, transient = 0;
  };

  void add_option(std::size_t i, std::size_t j, NodeId begin, NodeId end, std::int64_t group,
                  bool one_loop, const std::vector<Saved>& saved, std::size_t drop,
                  const std::unordered_set<ValueId>& leaving, const Common& common) {
    BlockOption meaning{begin, end, group, {}};
    ChainOption option;
    option.begin = static_cast<int>(i);
    option.end = static_cast<int>(j);
    std::unordered_set<ValueId> keeps = leaving;
    double kept = 0;
    for (std::size_t s = drop; s < saved.size(); ++s) {
      keeps.insert(saved[s].value);
      kept += saved_bytes(saved[s].value, one_loop ? group : batch_);
    }
    double again_bytes = 0, again_seconds = 0;
    if (drop > 0) {
      // Everything else that a recomputation passes through is computed again too.
      std::vector<bool> runs(static_cast<std::size_t>(end - begin), false);
      for (std::size_t s = 0; s < drop; ++s) {
        runs[static_cast<std::size_t>(graph_.value(saved[s].value).producer - begin)] = true;
      }
      for (NodeId id = end - 1; id >= begin; --id) {
        if (!runs[static_cast<std::size_t>(id - begin)]) continue;
        const Node& node = graph_.node(id);
        again_seconds += seconds(id, group);
        for (const ValueId output : node.outputs) again_bytes += bytes(output, group);
        for (const ValueId input : node.inputs) {
          const Value& value = graph_.value(graph_.root(input));
          if (value.producer == kNone || value.producer < begin || keeps.contains(value.id) ||
              !restorable(graph_, traits_, value.id)) {
            continue;
          }
          runs[static_cast<std::size_t>(value.producer - begin)] = true;
        }
      }
      for (NodeId id = begin; id < end; ++id) {
        for (const ValueId output : graph_.node(id).outputs) {
          if (!keeps.contains(output) && !kept_[static_cast<std::size_t>(output)] &&
              restorable(graph_, traits_, output)) {
            meaning.dropped.push_back(output);
          }
        }
      }
    }
    option.seconds = common.looping + again_seconds;
    option.kept = static_cast<std::size_t>(common.stays + (one_loop ? 0 : kept));
    option.working = static_cast<std::size_t>(common.transient + again_bytes + common.stays + kept);
    chain_.options.push_back(option);
    chain_.meaning.push_back(std::move(meaning));
  }

  const Graph& graph_;
  const std::vector<OpTraits>& traits_;
  const std::int64_t batch_;
  const int threads_;
  NodeId forward_ = 0;  // nodes of the forward pass
  std::vector<Use> uses_;
  std::vector<bool> kept_;
  std::vector<std::vector<NodeId>> backward_of_;  // by forward node
  BlockChain chain_;
};

}  // namespace

PlanOptions BlockChain::plan_options(const std::vector<int>& tiling, const PlanOptions& base,
                                     std::size_t values) const {
  PlanOptions plan = base;
  if (plan.saving.empty()) plan.saving.assign(values, Saving::kKeep);
  for (const int index : tiling) {
    const BlockOption& option = meaning[static_cast<std::size_t>(index)];
    plan.stretches.push_back({option.end, option.group});
    for (const ValueId value : option.dropped)
      plan.saving[static_cast<std::size_t>(value)] = Saving::kRecompute;
  }
  return plan;
}

BlockChain make_block_chain(const Graph& graph, const std::vector<OpTraits>& traits,
                            std::int64_t batch, int threads) {
  return ChainBuilder(graph, traits, batch, threads).run();
}

}  // namespace surefit
