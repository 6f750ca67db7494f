// SPDX-License-Identifier: Apache-2.0
// IDX, the format of MNIST and its kin, plain or gzipped: two zero bytes, a type, a rank,
// big-endian extents, then the elements, big-endian and row-major. Bad files are DataError.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "surefit/tensor.hpp"

#include "base/env.hpp"

namespace surefit {

struct IdxHeader {
  Shape shape;
  DType dtype = DType::kUInt8;
  bool gzipped = false;
  std::uint64_t header_bytes = 0;  // of the unpacked file: the data of a plain file begins there
};

Tensor read_idx(Env& env, const std::string& path);
Tensor parse_idx(std::unique_ptr<ReadableFile> file, std::string name);
// The header alone. For a plain file its size has been checked, so rows can be read in place.
IdxHeader index_idx(Env& env, const std::string& path);

enum class Split { kTrain, kTest };

struct LabeledImages {
  Tensor images;  // (count, height, width, channels) uint8
  Tensor labels;  // (count,) uint8
};

// The pair of pictures and labels that a directory holds under MNIST's names
// (train-images-idx3-ubyte, t10k-..., also with a dot for the last dash), plain or .gz.
LabeledImages load_idx_directory(Env& env, const std::string& directory, Split split);

}  // namespace surefit
