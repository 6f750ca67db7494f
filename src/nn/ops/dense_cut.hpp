// SPDX-License-Identifier: Apache-2.0
// How the weights of a Dense layer are cut into tasks.
//
// Where a layer is small or has few outputs, it is cut along its inputs into parts, each a smaller
// layer with its weights in one piece of memory. The parts are the same in forward, backward and
// update: a thread meets the same weights everywhere, and no other core has them in its cache.
// Forward adds the sums of the parts in order. (seed_cnn, batch 8, two threads: Adam went from 33
// to 12 us a step, the whole step from 95 to 70.) Large layers with many outputs are cut by panels
// of 16 outputs.
#pragma once

#include <algorithm>

#include "engine/kernels/dense.hpp"
#include "graph/value.hpp"

namespace surefit {

struct DenseCut {
  std::int64_t k_step = 0, k_parts = 1;
  std::int64_t unit_step = 0, unit_parts = 1;

  std::int64_t blocks() const { return k_parts * unit_parts; }
  // Blocks of a part follow each other, so that a thread's share of the blocks is a share of parts.
  std::int64_t part_of(std::int64_t block) const { return block / unit_parts; }
  std::int64_t unit_part_of(std::int64_t block) const { return block % unit_parts; }
};

struct DensePart {
  kernels::DenseShape shape;
  std::int64_t k_begin = 0;        // its first input
  std::int64_t weights_begin = 0;  // its first weight
};

inline DenseCut cut_dense(const kernels::DenseShape& shape) {
  const std::int64_t units = kernels::dense_units(shape);
  const std::int64_t weights = kernels::dense_weight_count(shape);
  DenseCut cut{.k_step = shape.inputs, .unit_step = std::clamp<std::int64_t>(units / 8, 1, 4)};
  constexpr std::int64_t kLargestInParts = 1 << 18, kPartWeights = 6144, kPartInputs = 192;
  if (units == 1 || weights <= kLargestInParts) {
    // Short parts would write and add more sums than they multiply.
    const std::int64_t most = std::clamp<std::int64_t>(shape.inputs / kPartInputs, 2, 64);
    const std::int64_t wanted =
        std::clamp<std::int64_t>((weights + kPartWeights / 2) / kPartWeights, 1, most);
    // An even number with the least padding among a few: threads should get equal shares.
    const auto step = [&](std::int64_t parts) { return round_up(div_up(shape.inputs, parts), 8); };
    std::int64_t parts = wanted == 1 ? 1 : round_up(wanted, 2);
    for (std::int64_t n = parts; wanted > 1 && n <= wanted + 4; n += 2) {
      if (step(n) * n < step(parts) * parts) parts = n;
    }
    cut.k_step = parts == 1 ? shape.inputs : step(parts);
  }
  cut.k_parts = div_up(shape.inputs, cut.k_step);
  if (cut.k_parts > 1) cut.unit_step = 4;
  cut.unit_parts = div_up(units, cut.unit_step);
  return cut;
}

inline DensePart dense_part(const kernels::DenseShape& shape, const DenseCut& cut,
                            std::int64_t index) {
  const std::int64_t begin = index * cut.k_step;
  const std::int64_t units = kernels::dense_units(shape);
  const std::int64_t row = units == 1 ? shape.outputs : units * kernels::kDensePanel;
  return {{std::min(shape.inputs - begin, cut.k_step), shape.outputs}, begin, begin * row};
}

}  // namespace surefit
