// SPDX-License-Identifier: Apache-2.0
#include "data/budget.hpp"

#include <algorithm>

#include "data/cache.hpp"
#include "data/verbs/batch.hpp"

namespace surefit::data {
namespace {

constexpr std::uint64_t kTrials = 8;
// On top of what the trials took: samples differ, and blocks are rounded up to pages.
constexpr std::uint64_t kRoomPerWorker = 256 << 10;

std::uint64_t with_room(std::uint64_t bytes) {
  return bytes + bytes / 4 + kRoomPerWorker;
}

// The steps from `top` down to the source, or nothing when they do not form a line.
std::vector<const Node*> line_of(const Node& top) {
  std::vector<const Node*> nodes;
  for (const Node* node = &top;; node = &node->input()) {
    nodes.push_back(node);
    if (node->inputs().empty()) return nodes;
    if (node->inputs().size() > 1) return {};
  }
}

void evenly_spaced(std::uint64_t size, std::vector<std::uint64_t>& indices) {
  const std::uint64_t count = std::min(size, kTrials);
  for (std::uint64_t i = 0; i < count; ++i) indices.push_back(size / count * i);
}

// A bad sample is not the plan's business; the run itself will say what is wrong with it.
template <typename Work>
void try_sample(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.exit_code() != ExitCode::kData && error.exit_code() != ExitCode::kSystem) throw;
  }
}

void apply_steps(const std::vector<const Node*>& line, Sample& sample, Worker& worker) {
  for (auto node = line.rbegin(); node != line.rend(); ++node) {
    if ((*node)->elementwise()) (*node)->apply(sample, worker);
  }
}

// Source and steps of samples that can be indexed; the steps are empty when they do not form a
// line.
struct Trial {
  const Node& source;
  std::vector<const Node*> line;
};

Trial trial_of(const Node& samples) {
  std::vector<const Node*> line = line_of(samples);
  return {line.empty() ? samples : *line.back(), std::move(line)};
}

void try_samples(const Trial& trial, std::span<const std::uint64_t> indices, Worker& worker) {
  Worker::Lease lease(worker);
  const auto prepare = [&](std::uint64_t index) {
    try_sample([&] {
      trial.source.read({index, 0}, *lease, worker);
      apply_steps(trial.line, *lease, worker);
    });
  };
  // There and back: a component has two blocks that take turns, and the largest must meet both.
  std::for_each(indices.begin(), indices.end(), prepare);
  std::for_each(indices.rbegin(), indices.rend(), prepare);
}

// Streams gather a batch (and filters a block) of samples before steps run on them.
std::uint64_t stream_need(const Node& samples, std::uint64_t held, Worker& worker,
                          const Meter& meter) {
  std::uint64_t element = 0;
  bool known = true;
  const Node* node = &samples;
  for (;; node = &node->input()) {
    const std::uint64_t bytes = element_bytes(node->spec());
    element = std::max(element, bytes);
    known = known && bytes > 0;
    if (node->inputs().empty() || node->random_access()) break;
  }
  if (!known || node->random_access()) {
    // Only running tells: one element, through all steps.
    const std::vector<const Node*> line = line_of(samples);
    Worker::Lease lease(worker);
    try_sample([&] {
      const auto cursor = line.empty() ? samples.open(0, worker) : line.back()->open(0, worker);
      if (cursor->next(*lease, worker)) apply_steps(line, *lease, worker);
    });
    element = std::max(element, meter.peak_bytes());
  }
  constexpr std::uint64_t kBlocks = 2;  // contents before and after a step
  return held * kBlocks * (element + element / 8 + (8 << 10));
}

void collect(const Node& node, std::vector<LedgerEntry>& entries) {
  for (const auto& input : node.inputs()) collect(*input, entries);
  for (LedgerEntry& entry : node.buffers()) entries.push_back(std::move(entry));
}

}  // namespace

std::vector<LedgerEntry> verb_buffers(const Node& top) {
  std::vector<LedgerEntry> entries;
  collect(top, entries);
  return entries;
}

std::uint64_t bytes_of(const std::vector<LedgerEntry>& entries, Residence residence) {
  std::uint64_t bytes = 0;
  for (const LedgerEntry& entry : entries) bytes += entry.residence == residence ? entry.bytes : 0;
  return bytes;
}

std::uint64_t scratch_bytes(const Node& top, int workers, std::uint64_t batch_size, Env& env) {
  const Batch* batch = find_batch(top);
  const Node& samples = batch ? batch->input() : top;
  Meter meter;
  Worker worker(0, meter, env);
  worker.set_probing();
  const auto threads = static_cast<std::uint64_t>(std::max(workers, 1));
  if (!samples.random_access()) {
    const std::uint64_t held = std::max<std::uint64_t>(batch_size, 1) + 4 * threads + 4;
    return with_room(stream_need(samples, held, worker, meter));
  }
  const Trial trial = trial_of(samples);
  std::vector<std::uint64_t> indices = trial.source.heaviest(kTrials);
  const std::uint64_t size = trial.source.size().value_or(0);
  evenly_spaced(size == kInfiniteCardinality ? 1 : size, indices);
  try_samples(trial, indices, worker);
  return threads * with_room(meter.peak_bytes());
}

void warm_up_worker(const Node& top, Worker& worker) {
  const Batch* batch = find_batch(top);
  const Node& samples = batch ? batch->input() : top;
  if (!samples.random_access()) return;
  const Trial trial = trial_of(samples);
  try_samples(trial, trial.source.heaviest(kTrials / 2), worker);
  worker.forget_times();
}

}  // namespace surefit::data
