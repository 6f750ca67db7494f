// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "surefit/tensor.hpp"

#include "engine/arena.hpp"
#include "optim/optimizer.hpp"
#include "train/network.hpp"

namespace surefit {

// The parameters of a model and the optimizer's slots, in the engine's layouts, each kind in one
// committed mapping. Outside the engine everybody sees Keras's names and layouts.
class ParameterStore {
 public:
  explicit ParameterStore(const std::vector<Parameter>& parameters);

  std::size_t count() const { return parameters_.size(); }
  const Parameter& parameter(std::size_t index) const { return parameters_[index]; }
  int find(std::string_view name) const;  // or kNone
  float* data(std::size_t index) const;
  std::size_t bytes() const { return in_pages(weight_count_); }

  void initialize(std::uint64_t seed);
  Tensor get(std::size_t index) const;               // Keras's layout
  void set(std::size_t index, const Tensor& value);  // throws ConfigError on another shape

  // Keras's elements in order, a piece at a time: a copy of the whole would double the largest
  // layer, outside of every plan. `fill` gets the number of its first element.
  static constexpr std::size_t kPiece = 1 << 16;  // floats, or one line
  void write_pieces(std::size_t index,
                    const std::function<void(std::size_t, std::span<float>)>& fill,
                    std::size_t most = kPiece) const;
  void read_pieces(std::size_t index,
                   const std::function<void(std::span<const float>)>& take) const;

  // The optimizer's slots, zeroed, for every trainable parameter; replaces earlier ones.
  void allocate_slots(const OptimizerImpl& optimizer);
  // Those of a parameter; none where it is not trained.
  const std::vector<SlotSpec>& slots(std::size_t index) const { return slot_specs_[index]; }
  Shape slot_shape(std::size_t index, std::size_t slot) const;  // as files have it
  std::size_t slot_stored_bytes(std::size_t index, std::size_t slot) const;
  float* slot(std::size_t index, std::size_t slot) const;
  std::size_t slot_bytes() const { return in_pages(slot_count_); }
  std::size_t slot_bytes_of(const OptimizerImpl& optimizer) const;  // of another one
  // Puts the moving mean of the weights in their place.
  void use_averages();

  // Between memory in the engine's layout and Keras's, which has as many floats as the parameter's
  // shape.
  void unpack(std::size_t index, const float* engine, float* keras) const;
  void pack(std::size_t index, const float* keras, float* engine) const;
  void unpack_slot(std::size_t index, std::size_t slot, float* keras) const;
  void pack_slot(std::size_t index, std::size_t slot, const float* keras) const;
  std::size_t offset(std::size_t index) const { return offsets_[index]; }  // floats from data(0)

 private:
  static std::size_t in_pages(std::size_t count);
  void take_memory() const;
  Tensor unpack(std::size_t index, const float* engine) const;
  void pack(std::size_t index, const Tensor& value, float* engine) const;

  std::vector<Parameter> parameters_;
  std::vector<std::size_t> offsets_;               // floats
  std::size_t weight_count_ = 0, slot_count_ = 0;  // floats, with padding
  std::uint64_t seed_ = 0;
  mutable std::unique_ptr<Arena> weights_;
  std::vector<std::vector<SlotSpec>> slot_specs_;
  std::vector<std::vector<std::size_t>> slot_offsets_;  // floats
  mutable std::unique_ptr<Arena> slots_;
};

}  // namespace surefit
