// SPDX-License-Identifier: Apache-2.0
// What a reader measured, and what it says about it.
#include <algorithm>
#include <fmt/format.h>

#include "base/units.hpp"
#include "data/reader.hpp"

namespace surefit::data {
namespace {

void collect_steps(const Node& node, std::vector<std::pair<std::uint32_t, std::string>>& steps) {
  for (const auto& input : node.inputs()) collect_steps(*input, steps);
  if (node.elementwise()) steps.emplace_back(node.op(), node.describe());
}

}  // namespace

BatchReader::Statistics BatchReader::statistics() const {
  Statistics statistics = times();
  std::vector<std::pair<std::uint32_t, std::string>> steps;
  collect_steps(*node_, steps);
  for (const auto& [op, name] : steps) {
    Step step;
    step.name = name;
    for (const Worker& worker : workers_) {
      if (op >= worker.times().size()) continue;
      step.calls += worker.times()[op].calls;
      step.seconds += worker.times()[op].seconds;
    }
    statistics.steps.push_back(step);
  }
  for (const Worker& worker : workers_) statistics.io_seconds += worker.io_seconds();
  return statistics;
}

std::string BatchReader::explain() const {
  const Statistics now = statistics();
  std::string text = fmt::format("pipeline:   {}\n", describe_pipeline(*node_));
  if (now.samples == 0) return text + "nothing measured yet\n";
  const auto samples = static_cast<double>(now.samples);
  double work = 0;
  const Step* slowest = nullptr;
  for (const Step& step : now.steps) {
    work += step.seconds;
    if (step.calls > 0 && (slowest == nullptr || step.seconds > slowest->seconds)) slowest = &step;
  }
  for (const Step& step : now.steps) {
    text += fmt::format("step:       {}: {:.1f} us a sample, {:.1f} % of the steps' time{}\n",
                        step.name, step.seconds / samples * 1e6,
                        work > 0 ? step.seconds / work * 100 : 0,
                        step.calls < now.samples
                            ? fmt::format(", run for {} of {} samples", step.calls, now.samples)
                            : "");
  }
  text += fmt::format(
      "rate:       {:.0f} samples/s could be prepared by {} threads; {:.0f}/s were taken\n",
      samples / std::max(now.fill_seconds, 1e-9), workers_.size(),
      samples / std::max(now.elapsed_seconds, 1e-9));
  text += fmt::format(
      "input:      {:.1f} % of the time went into preparing batches, {:.1f} % into waiting for "
      "files "
      "and for the last thread\n",
      now.input_share() * 100, now.stall_share() * 100);
  if (slowest != nullptr && work > 0) {
    text += fmt::format("bottleneck: {}\n", slowest->name);
    text += fmt::format(
        "files:      {:.1f} % of the steps' time; reading ahead is {}\n",
        now.io_seconds / work * 100,
        now.reads_ahead ? "on" : (prefetch_depth_ == 0 ? "off: no prefetch" : "off: not worth it"));
  } else {
    text += "bottleneck: none; samples are copied from memory\n";
  }
  text += fmt::format(
      "cache:      {}\n",
      cache_ ? fmt::format("after {}; {}", cache_->node().describe(), cache_->store().describe())
             : "none of the reader's");
  text += fmt::format("memory:     {} planned;", format_bytes(planned_bytes()));
  for (const LedgerEntry& entry : buffers())
    text += fmt::format(" {} {};", entry.name, format_bytes(entry.bytes));
  text +=
      fmt::format(" samples in preparation took {} so far\n", format_bytes(meter_->peak_bytes()));
  return text;
}

}  // namespace surefit::data
