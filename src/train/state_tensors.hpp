// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint: parameters, optimizer slots, and weights that callbacks keep;
// Keras's names and layouts.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "surefit/callbacks.hpp"

#include "base/thread_pool.hpp"
#include "ckpt/checkpoint.hpp"
#include "engine/arena.hpp"
#include "train/parameters.hpp"

namespace surefit {

class StateTensors final : public TensorSource {
 public:
  // `keepers` each get room for one copy of the weights.
  StateTensors(ParameterStore& store, const std::vector<const Callback*>& keepers);

  const std::vector<SafetensorsSpec>& specs() const { return specs_; }
  // Room for a copy of everything, so that the training can go on while it is written; without
  // staging only for the largest tensor. Committed here; replaces what was there.
  void allocate(bool staging);
  std::size_t staging_bytes() const { return staging_ ? staging_->bytes() : 0; }
  std::size_t staging_bytes(bool staging) const;  // that allocate() would take
  bool staged() const { return staged_; }
  // Room for the weights that callbacks keep.
  void allocate_kept();
  std::size_t kept_bytes() const;
  std::uint64_t state_bytes() const { return total_bytes_; }

  // Takes the copy; without staging it does nothing, and tensor() reads the state itself.
  void stage(ThreadPool& pool);
  std::span<const std::byte> tensor(std::size_t index) override;

  // Puts back what `file` holds. Where a tensor is missing or of another shape, it stays as it is
  // and its name is returned.
  std::vector<std::string> load(const CheckpointFile& file);

  void keep(const Callback& owner);
  void restore(const Callback& owner);
  // Which keepers have something.
  std::size_t keepers() const { return keepers_.size(); }
  bool kept(std::size_t keeper) const { return keepers_[keeper].used; }
  void set_kept(std::size_t keeper, bool used) { keepers_[keeper].used = used; }

 private:
  struct Place {
    std::size_t parameter = 0;
    int slot = -1, keeper = -1;
    std::size_t offset = 0;  // in the staging, bytes
  };
  struct Keeper {
    const Callback* owner = nullptr;
    std::unique_ptr<Arena> weights;
    bool used = false;
  };
  float* weights(const Place& place) const;
  void copy_out(const Place& place, std::byte* to) const;
  void copy_in(const Place& place, const std::byte* from) const;
  Keeper& keeper_of(const Callback& owner);
  void add(std::string name, const Place& place);

  ParameterStore& store_;
  std::vector<SafetensorsSpec> specs_;
  std::vector<Place> places_;  // as specs_
  std::vector<Keeper> keepers_;
  std::size_t total_bytes_ = 0, largest_bytes_ = 0;
  std::unique_ptr<Arena> staging_;
  bool staged_ = false;
};

}  // namespace surefit
