// SPDX-License-Identifier: Apache-2.0
// What is in a data set: what `surefit data` prints and draws.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "surefit/data.hpp"

#include "data/quarantine.hpp"

namespace surefit {
class ThreadPool;
}

namespace surefit::data {

struct Inspection {
  std::uint64_t samples = 0;                        // looked at
  std::map<std::int64_t, std::uint64_t> per_label;  // by integer label; empty when there are none
  std::map<std::string, std::uint64_t> per_shape;   // "uint8 (375, 500, 3)"
  std::vector<BadSample> bad;                       // by sample number
  std::vector<double> mean, deviation;  // per channel, over all values of uint8 pictures
  std::string text(const std::vector<std::string>& class_names = {}) const;
};

struct InspectOptions {
  std::uint64_t max_samples = ~std::uint64_t{0};
  Env* env = nullptr;
};

// Reads every sample once. Elements are (picture or path, label...) and not batched; paths are read
// and decoded at full size. Sums are whole numbers, so the result does not depend on the number of
// threads.
Inspection inspect(const Dataset& dataset, ThreadPool& pool, InspectOptions options = {});

struct SheetOptions {
  std::int64_t columns = 8, rows = 4, cell = 96;  // pixels a side
  std::uint64_t seed = 0, epoch = 0;
};
// The first samples as they come out of the pipeline, after augmentation, as the bytes of a PNG.
std::string contact_sheet(const Dataset& dataset, ThreadPool& pool, SheetOptions options = {});

}  // namespace surefit::data
