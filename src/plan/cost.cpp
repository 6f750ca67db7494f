// SPDX-License-Identifier: Apache-2.0
#include "plan/cost.hpp"

#include <algorithm>

namespace surefit {

double node_seconds(const Graph& graph, NodeId id, const OpTraits& traits, std::int64_t batch,
                    int threads, double groups, const CostModel& model) {
  const Node& node = graph.node(id);
  const double runs = traits.role == BatchRole::kBatchFree ? 1 : groups;
  // What lies outside the batch (weights, their gradients) streams from memory once per group, or
  // stays in the cache.
  double bytes = 0;
  const auto add = [&](const std::vector<ValueId>& values) {
    for (const ValueId value : values) {
      const ValueType& type = graph.value(graph.root(value)).type;
      const auto each = static_cast<double>(type.stored_bytes());
      const double times = each <= model.cache_bytes ? 1 : runs;
      bytes += each * (type.batched ? static_cast<double>(batch) : times);
    }
  };
  add(node.inputs);
  add(node.outputs);
  const double flops =
      traits.flops_per_sample * static_cast<double>(batch) + traits.flops_per_step * runs;
  const double work = std::max(flops / (model.flops_per_second * traits.efficiency),
                               bytes / model.bytes_per_second);
  return work / threads + runs * model.dispatch_seconds;
}

double estimate_seconds(const Graph& graph, const std::vector<OpTraits>& traits, const Plan& plan,
                        const CostModel& model) {
  double seconds = 0;
  for (const Segment& segment : plan.segments) {
    const double groups = static_cast<double>((plan.batch + segment.group - 1) / segment.group);
    for (int i = segment.begin; i < segment.end; ++i) {
      const Instance& instance = plan.instances[static_cast<std::size_t>(i)];
      if (instance.action == Action::kRun) {
        seconds +=
            node_seconds(graph, instance.node, traits[static_cast<std::size_t>(instance.node)],
                         plan.batch, plan.threads, groups, model);
        continue;
      }
      const bool file = instance.action == Action::kSpill || instance.action == Action::kFetch;
      const int moved = instance.outputs.empty() ? instance.inputs[0] : instance.outputs[0];
      const Buffer& buffer = plan.buffers[static_cast<std::size_t>(moved)];
      const double bytes = buffer.sample_bytes == 0 ? static_cast<double>(buffer.bytes)
                                                    : static_cast<double>(buffer.sample_bytes) *
                                                          static_cast<double>(plan.batch);
      seconds +=
          bytes / (file ? model.disk_bytes_per_second : model.bytes_per_second * plan.threads) +
          groups * model.dispatch_seconds;
    }
  }
  return seconds;
}

}  // namespace surefit
