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

std::uint64_t indexed_need(const Node& samples, Worker& worker, const Meter& meter) {
  Worker::Lease lease(worker);
  std::vector<std::uint64_t> indices;
  const std::vector<const Node*> line = line_of(samples);
  const Node& source = line.empty() ? samples : *line.back();
  if (const std::uint64_t size = source.size().value_or(0); size != kInfiniteCardinality) {
    indices = source.heaviest(kTrials);
    evenly_spaced(size, indices);
  } else {
    indices.push_back(0);
  }
  for (const std::uint64_t index : indices) {
    try_sample([&] {
      source.read({index, 0}, *lease, worker);
      if (!line.empty()) apply_steps(line, *lease, worker);
    });
  }
  return meter.peak_bytes();
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
  return threads * with_room(indexed_need(samples, worker, meter));
}

}  // namespace surefit::data
