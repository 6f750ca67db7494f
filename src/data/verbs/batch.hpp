// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/node.hpp"

namespace surefit::data {

// Where a batch goes: one slot per component, rows one after the other.
struct Slot {
  DType dtype = DType::kFloat32;
  Dims row;                    // extents of one sample
  std::span<std::byte> bytes;  // room for batch_size rows
  std::size_t row_bytes() const { return row.count() * size_of(dtype); }
};

class Batch final : public Node {
 public:
  Batch(NodePtr input, std::uint64_t batch_size, BatchOptions options);

  std::string describe() const override;
  std::vector<ComponentSpec> spec() const override;
  std::optional<std::uint64_t> size() const override;
  void read(Position at, Sample& out, Worker& worker) const override;
  std::unique_ptr<Cursor> open(std::uint64_t pass, Worker& worker) const override;
  void will_need(Position at, Worker& worker) const override;

  std::uint64_t batch_size() const { return batch_size_; }
  std::uint64_t rows(std::uint64_t index) const;  // samples in batch `index`; random access only
  // Prepares the samples of one batch in parallel, each straight into its rows of `slots`.
  std::uint64_t fill(Position at, std::span<const Slot> slots, std::span<std::uint64_t> ids,
                     Team& team) const;
  // Reads the batch's first sample with every worker, so that all of them have their buffers: which
  // worker gets a sample is chance, and its first one must not allocate in the middle of training.
  void warm_up(Position at, std::span<const Slot> slots, std::vector<Worker>& workers) const;

 private:
  std::uint64_t batch_size_;
  BatchOptions options_;
};

// The batch verb that decides the rows, below verbs that only choose among batches; or null.
const Batch* find_batch(const Node& top);

// Checks `sample` against `slots` and writes it into row `row`.
void store_row(const Sample& sample, std::span<const Slot> slots, std::uint64_t row);

}  // namespace surefit::data
