// SPDX-License-Identifier: Apache-2.0
#include "plan/cost.hpp"

#include <algorithm>

namespace surefit {

double estimate_seconds(const Graph& graph, const Plan& plan, const CostModel& model) {
  double seconds = 0;
  for (const Segment& segment : plan.segments) {
    const double groups = static_cast<double>((plan.batch + segment.group - 1) / segment.group);
    for (int i = segment.begin; i < segment.end; ++i) {
      const Instance& instance = plan.instances[static_cast<std::size_t>(i)];
      const Node& node = graph.node(instance.node);
      const OpTraits traits = node.op->traits(graph.input_types(node), graph.output_types(node));
      const double runs = traits.role == BatchRole::kBatchFree ? 1 : groups;
      // What lies outside the batch (weights, their gradients) streams from memory once per group.
      double bytes = 0;
      const auto add = [&](const std::vector<int>& buffers) {
        for (const int index : buffers) {
          const Buffer& buffer = plan.buffers[static_cast<std::size_t>(index)];
          bytes +=
              static_cast<double>(buffer.sample_bytes == 0
                                      ? buffer.bytes * static_cast<std::size_t>(runs)
                                      : buffer.sample_bytes * static_cast<std::size_t>(plan.batch));
        }
      };
      add(instance.inputs);
      add(instance.outputs);
      const double flops =
          traits.flops_per_sample * static_cast<double>(plan.batch) + traits.flops_per_step;
      const double work = std::max(flops / (model.flops_per_second * traits.efficiency),
                                   bytes / model.bytes_per_second);
      seconds += work / plan.threads + runs * model.dispatch_seconds;
    }
  }
  return seconds;
}

}  // namespace surefit
