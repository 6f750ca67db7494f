// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/env.hpp"
#include "data/node.hpp"

namespace surefit::data {

// An array that lies in a file, row after row, as little-endian elements: plain npy, stored npz
// members, plain IDX of bytes.
struct FileArray {
  std::shared_ptr<const ReadableFile> file;
  std::string path;
  std::uint64_t offset = 0;
  DType dtype = DType::kUInt8;
  Shape shape;
};

// Slices along the first axis, each read from its file when wanted: memory does not grow with the
// data.
NodePtr make_file_rows(std::vector<FileArray> arrays);

}  // namespace surefit::data
