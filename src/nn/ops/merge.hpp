// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "graph/op.hpp"

namespace surefit {

enum class MergeKind { kAdd, kMultiply, kSubtract, kAverage, kMaximum, kMinimum };

// The shape that all of these fit when extents of 1 are repeated; nothing where they do not.
std::optional<Shape> broadcast_shape(std::span<const Shape> shapes);

// Combines values element by element, in order; equal extremes belong to the first input that has
// them.
std::shared_ptr<const Op> make_merge_op(MergeKind kind, const std::vector<Shape>& shapes);

}  // namespace surefit
