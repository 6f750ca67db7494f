// SPDX-License-Identifier: Apache-2.0
// What a pipeline needs in memory, found out before it runs.
#pragma once

#include <cstdint>
#include <vector>

#include "data/node.hpp"

namespace surefit::data {

// Everything that the verbs of a pipeline keep, source first.
std::vector<LedgerEntry> verb_buffers(const Node& top);
std::uint64_t bytes_of(const std::vector<LedgerEntry>& entries, Residence residence);

// Bytes for the samples that `workers` threads have in hand: files, decoders' memory, results of
// steps. Found by preparing a few samples, the largest files among them, with some room on top; the
// same on every machine. `batch_size` matters to streams, whose batches are gathered before they
// are prepared.
std::uint64_t scratch_bytes(const Node& top, int workers, std::uint64_t batch_size, Env& env);

// Prepares the largest of them, so that `worker` has buffers for all that comes.
void warm_up_worker(const Node& top, Worker& worker);

}  // namespace surefit::data
