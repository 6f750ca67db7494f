// SPDX-License-Identifier: Apache-2.0
#include "train/state_tensors.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace surefit {
namespace {

std::size_t bytes_of(const SafetensorsSpec& spec) {
  return spec.shape.count() * sizeof(float);
}

}  // namespace

StateTensors::StateTensors(ParameterStore& store, const std::vector<const Callback*>& keepers)
    : store_(store) {
  for (std::size_t i = 0; i < store.count(); ++i) add(store.parameter(i).name, {.parameter = i});
  for (std::size_t i = 0; i < store.count(); ++i) {
    for (std::size_t slot = 0; slot < store.slots(i).size(); ++slot) {
      add(fmt::format("optimizer/{}/{}", store.slots(i)[slot].name, store.parameter(i).name),
          {.parameter = i, .slot = static_cast<int>(slot)});
    }
  }
  for (const Callback* keeper : keepers) {
    const auto number = static_cast<int>(keepers_.size());
    keepers_.push_back({keeper, nullptr, false});
    for (std::size_t i = 0; i < store.count(); ++i) {
      add(fmt::format("kept/{}/{}", number, store.parameter(i).name),
          {.parameter = i, .keeper = number});
    }
  }
}

void StateTensors::add(std::string name, const Place& place) {
  const Shape shape = place.slot >= 0
                          ? store_.slot_shape(place.parameter, static_cast<std::size_t>(place.slot))
                          : store_.parameter(place.parameter).spec.shape;
  specs_.push_back({std::move(name), DType::kFloat32, shape});
  places_.push_back(place);
  places_.back().offset = total_bytes_;
  total_bytes_ += bytes_of(specs_.back());
  largest_bytes_ = std::max(largest_bytes_, bytes_of(specs_.back()));
}

void StateTensors::allocate(bool staging) {
  staged_ = staging;
  staging_.reset();  // never both
  staging_ = std::make_unique<Arena>(staging_bytes(staging));
}

std::size_t StateTensors::staging_bytes(bool staging) const {
  return Arena::in_pages(staging ? total_bytes_ : largest_bytes_);
}

void StateTensors::allocate_kept() {
  for (Keeper& keeper : keepers_) {
    if (!keeper.weights) keeper.weights = std::make_unique<Arena>(store_.bytes());
  }
}

std::size_t StateTensors::kept_bytes() const {
  return keepers_.size() * Arena::in_pages(store_.bytes());
}

float* StateTensors::weights(const Place& place) const {
  if (place.keeper < 0) return store_.data(place.parameter);
  const Keeper& keeper = keepers_[static_cast<std::size_t>(place.keeper)];
  return reinterpret_cast<float*>(keeper.weights->base()) + store_.offset(place.parameter);
}

void StateTensors::copy_out(const Place& place, std::byte* to) const {
  auto* keras = reinterpret_cast<float*>(to);
  if (place.slot >= 0)
    return store_.unpack_slot(place.parameter, static_cast<std::size_t>(place.slot), keras);
  store_.unpack(place.parameter, weights(place), keras);
}

void StateTensors::copy_in(const Place& place, const std::byte* from) const {
  const auto* keras = reinterpret_cast<const float*>(from);
  if (place.slot >= 0)
    return store_.pack_slot(place.parameter, static_cast<std::size_t>(place.slot), keras);
  store_.pack(place.parameter, keras, weights(place));
}

void StateTensors::stage(ThreadPool& pool) {
  if (!staged_) return;
  pool.parallel_for(places_.size(), [&](std::size_t index, int) {
    copy_out(places_[index], staging_->base() + places_[index].offset);
  });
}

std::span<const std::byte> StateTensors::tensor(std::size_t index) {
  const Place& place = places_[index];
  const std::size_t bytes = bytes_of(specs_[index]);
  if (staged_) return {staging_->base() + place.offset, bytes};
  copy_out(place, staging_->base());
  return {staging_->base(), bytes};
}

std::vector<std::string> StateTensors::load(const CheckpointFile& file) {
  std::vector<std::string> left;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const SafetensorsSpec& spec = specs_[i];
    if (!file.contains(spec.name) || file.entry(spec.name).shape != spec.shape ||
        file.entry(spec.name).dtype != spec.dtype) {
      left.push_back(spec.name);
      continue;
    }
    file.read_into(spec.name, {staging_->base(), bytes_of(spec)});
    copy_in(places_[i], staging_->base());
  }
  return left;
}

StateTensors::Keeper& StateTensors::keeper_of(const Callback& owner) {
  const auto found = std::find_if(keepers_.begin(), keepers_.end(),
                                  [&](const Keeper& k) { return k.owner == &owner; });
  if (found == keepers_.end()) {
    throw ConfigError(
        "[callback] no room to keep weights; keeps_weights() must be true when fit() begins");
  }
  return *found;
}

void StateTensors::keep(const Callback& owner) {
  Keeper& keeper = keeper_of(owner);
  if (store_.bytes() > 0) std::memcpy(keeper.weights->base(), store_.data(0), store_.bytes());
  keeper.used = true;
}

void StateTensors::restore(const Callback& owner) {
  const Keeper& keeper = keeper_of(owner);
  if (keeper.used && store_.bytes() > 0)
    std::memcpy(store_.data(0), keeper.weights->base(), store_.bytes());
}

}  // namespace surefit
