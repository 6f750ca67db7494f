// SPDX-License-Identifier: Apache-2.0
// Pieces that several layers share.
#pragma once

#include <optional>
#include <string>

#include "nn/layer.hpp"

namespace surefit {

// Checks the name now, so that a typo is found when the layer is made.
void check_activation(const std::string& name);
// Emits the activation by its Keras name; "linear" emits nothing.
ValueId emit_activation(LayerBuilder& builder, const std::string& name, ValueId input);

// Padding and cropping: not negative, not absurd.
void check_sides(std::string_view where, const Sides& sides);

// What a layer's random numbers hang on, beside step and sample.
struct RandomKey {
  std::optional<std::uint64_t> seed;  // the layer's own; none: the run's
  std::uint32_t layer = 0;
};
RandomKey random_key(const LayerBuilder& builder, const std::optional<std::int64_t>& seed);

void require_channels_last(const std::string& data_format);
// What is wrong with them is found when the layer is made.
void check_regularizer(const std::optional<Object>& value);
void check_constraint(const std::optional<Object>& value);
// What is not there yet is refused, never ignored.
void require_absent(std::string_view field, const std::optional<Object>& value);

// A row seen as a picture of one pixel, so that per-channel nodes serve both.
ValueId as_picture(LayerBuilder& builder, ValueId input);
// The way back: as_picture's result, whatever layout, seen as a row.
ValueId as_row(LayerBuilder& builder, ValueId input);

}  // namespace surefit
