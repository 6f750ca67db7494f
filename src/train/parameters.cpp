// SPDX-License-Identifier: Apache-2.0
#include "train/parameters.hpp"

#include <algorithm>
#include <cstring>
#include <unistd.h>

#include "base/check.hpp"
#include "base/memory_limit.hpp"
#include "base/units.hpp"
#include "nn/initializer.hpp"

namespace surefit {
namespace {

// Every parameter starts on its own cache line, so that vector loops and threads do not share one.
std::size_t padded(std::size_t count) {
  return static_cast<std::size_t>(round_up(static_cast<std::int64_t>(count), 16));
}

// Says no where the system would say nothing and kill.
std::unique_ptr<Arena> committed(std::size_t bytes, const char* what) {
  const MemoryLimit limit = memory_limit(read_memory_facts());
  if (bytes > limit.bytes) {
    throw MemoryRefused(
        fmt::format(
            "[memory] the {} alone need {}, and {} leaves {}; use a smaller model, or raise "
            "the limit",
            what, format_bytes(bytes), limit.source, format_bytes(limit.bytes)),
        bytes, limit.bytes, bytes);
  }
  return std::make_unique<Arena>(bytes);
}

// Calls visit(first line, room for lines) over all lines, at most `most` floats or one line at a
// time.
template <typename Visit>
void for_pieces(const Packing& packing, std::size_t most, const Visit& visit) {
  const std::size_t length = packing.line_length(), lines = packing.lines();
  if (length * lines == 0) return;
  const std::size_t step = std::clamp<std::size_t>(most / length, 1, lines);
  std::vector<float> room(step * length);
  for (std::size_t first = 0; first < lines; first += step)
    visit(first, std::span(room).first(std::min(step, lines - first) * length));
}

}  // namespace

ParameterStore::ParameterStore(const std::vector<Parameter>& parameters) : parameters_(parameters) {
  for (const Parameter& parameter : parameters_) {
    offsets_.push_back(weight_count_);
    weight_count_ += padded(parameter.stored_count());
  }
  slot_specs_.resize(parameters_.size());
}

std::size_t ParameterStore::in_pages(std::size_t count) {
  return static_cast<std::size_t>(
      round_up(static_cast<std::int64_t>(count * sizeof(float)), ::sysconf(_SC_PAGESIZE)));
}

void ParameterStore::take_memory() const {
  weights_ = committed(bytes(), "weights");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const ParameterSpec& spec = parameters_[i].spec;
    const auto fill = [&](std::size_t begin, std::span<float> piece) {
      surefit::initialize(spec.initializer, spec.shape, seed_, static_cast<std::uint32_t>(i), begin,
                          piece);
    };
    write_pieces(i, fill, initializes_as_a_whole(spec.initializer) ? ~std::size_t{0} : kPiece);
  }
}

void ParameterStore::write_pieces(std::size_t index,
                                  const std::function<void(std::size_t, std::span<float>)>& fill,
                                  std::size_t most) const {
  const ParameterSpec& spec = parameters_[index].spec;
  float* const engine = data(index);
  if (!spec.packing) return fill(0, {engine, spec.shape.count()});
  const Packing& packing = *spec.packing;
  const std::size_t length = packing.line_length();
  std::memset(engine, 0, packing.stored_count() * sizeof(float));
  for_pieces(packing, most, [&](std::size_t first, std::span<float> piece) {
    fill(first * length, piece);
    for (std::size_t at = 0; at < piece.size(); at += length)
      packing.write_line(first++, piece.data() + at, engine);
  });
}

void ParameterStore::read_pieces(std::size_t index,
                                 const std::function<void(std::span<const float>)>& take) const {
  const ParameterSpec& spec = parameters_[index].spec;
  const float* const engine = data(index);
  if (!spec.packing) return take({engine, spec.shape.count()});
  const Packing& packing = *spec.packing;
  const std::size_t length = packing.line_length();
  for_pieces(packing, kPiece, [&](std::size_t first, std::span<float> piece) {
    for (std::size_t at = 0; at < piece.size(); at += length)
      packing.read_line(first++, engine, piece.data() + at);
    take(piece);
  });
}

int ParameterStore::find(std::string_view name) const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].name == name) return static_cast<int>(i);
  }
  return kNone;
}

float* ParameterStore::data(std::size_t index) const {
  if (!weights_) take_memory();
  return reinterpret_cast<float*>(weights_->base()) + offsets_[index];
}

void ParameterStore::initialize(std::uint64_t seed) {
  seed_ = seed;
  weights_.reset();
}

Tensor ParameterStore::unpack(std::size_t index, const float* engine) const {
  Tensor value(parameters_[index].spec.shape);
  unpack(index, engine, value.values<float>().data());
  return value;
}

void ParameterStore::unpack(std::size_t index, const float* engine, float* keras) const {
  const ParameterSpec& spec = parameters_[index].spec;
  if (spec.packing) {
    spec.packing->unpack(engine, keras);
  } else if (const std::size_t count = spec.shape.count(); count > 0) {
    std::memcpy(keras, engine, count * sizeof(float));
  }
}

void ParameterStore::pack(std::size_t index, const float* keras, float* engine) const {
  const ParameterSpec& spec = parameters_[index].spec;
  if (spec.packing) {
    spec.packing->pack(keras, engine);
  } else if (const std::size_t count = spec.shape.count(); count > 0) {
    std::memcpy(engine, keras, count * sizeof(float));
  }
}

void ParameterStore::pack(std::size_t index, const Tensor& value, float* engine) const {
  const Parameter& parameter = parameters_[index];
  if (value.shape() != parameter.spec.shape || value.dtype() != DType::kFloat32) {
    throw ConfigError(fmt::format("[{}] wrong weight; expected float32 {}; got {} {}",
                                  parameter.name, parameter.spec.shape.to_string(),
                                  name_of(value.dtype()), value.shape().to_string()));
  }
  pack(index, value.values<float>().data(), engine);
}

Tensor ParameterStore::get(std::size_t index) const {
  return unpack(index, data(index));
}
void ParameterStore::set(std::size_t index, const Tensor& value) {
  pack(index, value, data(index));
}

void ParameterStore::allocate_slots(const OptimizerImpl& optimizer) {
  slot_specs_.assign(parameters_.size(), {});
  slot_offsets_.assign(parameters_.size(), {});
  slot_count_ = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].trainable) continue;
    slot_specs_[i] = optimizer.slots(parameters_[i].spec.shape);
    for (std::size_t slot = 0; slot < slot_specs_[i].size(); ++slot) {
      slot_offsets_[i].push_back(slot_count_);
      slot_count_ += padded(slot_stored_bytes(i, slot) / sizeof(float));
    }
  }
  slots_.reset();
}

std::size_t ParameterStore::slot_bytes_of(const OptimizerImpl& optimizer) const {
  std::size_t count = 0;
  for (const Parameter& parameter : parameters_) {
    if (!parameter.trainable) continue;
    for (const SlotSpec& slot : optimizer.slots(parameter.spec.shape))
      count += padded(slot.shape ? slot.shape->count() : parameter.stored_count());
  }
  return in_pages(count);
}

Shape ParameterStore::slot_shape(std::size_t index, std::size_t slot) const {
  return slot_specs_[index][slot].shape.value_or(parameters_[index].spec.shape);
}

std::size_t ParameterStore::slot_stored_bytes(std::size_t index, std::size_t slot) const {
  const std::optional<Shape>& shape = slot_specs_[index][slot].shape;
  return (shape ? shape->count() : parameters_[index].stored_count()) * sizeof(float);
}

float* ParameterStore::slot(std::size_t index, std::size_t slot) const {
  if (!slots_) slots_ = committed(slot_bytes(), "optimizer slots");
  return reinterpret_cast<float*>(slots_->base()) + slot_offsets_[index][slot];
}

void ParameterStore::use_averages() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    for (std::size_t s = 0; s < slot_specs_[i].size(); ++s) {
      if (slot_specs_[i][s].name == kAverageSlot)
        std::memcpy(data(i), slot(i, s), slot_stored_bytes(i, s));
    }
  }
}

void ParameterStore::unpack_slot(std::size_t index, std::size_t slot, float* keras) const {
  const float* engine = this->slot(index, slot);
  if (!slot_specs_[index][slot].shape) return unpack(index, engine, keras);
  std::memcpy(keras, engine, slot_stored_bytes(index, slot));
}

void ParameterStore::pack_slot(std::size_t index, std::size_t slot, const float* keras) const {
  float* engine = this->slot(index, slot);
  if (!slot_specs_[index][slot].shape) return pack(index, keras, engine);
  std::memcpy(engine, keras, slot_stored_bytes(index, slot));
}

}  // namespace surefit
