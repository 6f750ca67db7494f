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
#include <tuple>
#include <utility>

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

// Whether a layer is cut along its inputs, if at all.
inline bool in_parts(const kernels::DenseShape& shape) {
  constexpr std::int64_t kLargestInParts = 1 << 18;
  return kernels::dense_units(shape) == 1 || kernels::dense_weight_count(shape) <= kLargestInParts;
}

inline DenseCut cut_dense(const kernels::DenseShape& shape) {
  const std::int64_t units = kernels::dense_units(shape);
  const std::int64_t weights = kernels::dense_weight_count(shape);
  DenseCut cut{.k_step = shape.inputs, .unit_step = std::clamp<std::int64_t>(units / 8, 1, 4)};
  constexpr std::int64_t kPartWeights = 6144, kPartInputs = 192;
  if (in_parts(shape)) {
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

// Piece `index` of [0, count) in steps of `step`.
inline std::pair<std::int64_t, std::int64_t> piece_of(std::int64_t count, std::int64_t step,
                                                      std::int64_t index) {
  return {std::min(count, index * step), std::min(count, (index + 1) * step)};
}

// Inputs [begin, end) of a part.
struct DenseStrip {
  DensePart part;
  std::int64_t begin = 0, end = 0;

  // Calls f(begin, count, at) for every stretch of memory that has its weights: where it begins
  // among the layer's, and in an array of the strip's own.
  template <typename Function>
  void for_ranges(const Function& f) const {
    const std::int64_t units = kernels::dense_units(part.shape);
    const std::int64_t rows = end - begin, width = kernels::kDensePanel;
    if (units == 1) {
      const std::int64_t skipped = begin * part.shape.outputs;
      return f(part.weights_begin + skipped,
               kernels::dense_weight_count({rows, part.shape.outputs}), 0);
    }
    for (std::int64_t unit = 0; unit < units; ++unit) {
      f(part.weights_begin + (unit * part.shape.inputs + begin) * width, rows * width,
        unit * rows * width);
    }
  }
};

// The strips of all parts: as equal as parts allow, and small enough for a cache.
struct DenseStrips {
  explicit DenseStrips(const kernels::DenseShape& shape) : cut(cut_dense(shape)) {
    constexpr std::int64_t kStripWeights = 8192;
    const std::int64_t weights = kernels::dense_weight_count({cut.k_step, shape.outputs});
    const std::int64_t wanted = std::max<std::int64_t>(1, div_up(weights, kStripWeights));
    step = std::min(cut.k_step, round_up(div_up(cut.k_step, wanted), 8));
    per_part = div_up(cut.k_step, step);
  }
  std::int64_t count() const { return cut.k_parts * per_part; }
  DenseStrip at(const kernels::DenseShape& shape, std::int64_t index) const {
    DenseStrip strip{dense_part(shape, cut, index / per_part)};
    std::tie(strip.begin, strip.end) = piece_of(strip.part.shape.inputs, step, index % per_part);
    return strip;
  }

  DenseCut cut;
  std::int64_t step = 0, per_part = 1;
};

}  // namespace surefit
