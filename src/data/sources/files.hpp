// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "surefit/image.hpp"

#include "data/node.hpp"

namespace surefit::data {

// Paths under one root and their labels, packed: a million files take their names and 12 bytes
// each.
class FileTable {
 public:
  explicit FileTable(std::string root = {}) : root_(std::move(root)) {}
  void add(std::string_view relative_path, std::int32_t label = 0);
  void sort();  // by path
  std::size_t size() const { return entries_.size(); }
  std::string_view relative(std::size_t index) const {
    return std::string_view(names_).substr(entries_[index].offset, entries_[index].length);
  }
  void path(std::size_t index, std::string& out) const;  // reuses out's memory
  std::int32_t label(std::size_t index) const { return entries_[index].label; }
  const std::string& root() const { return root_; }
  std::uint64_t bytes() const { return names_.capacity() + entries_.capacity() * sizeof(Entry); }
  void shrink();

 private:
  struct Entry {
    std::uint32_t offset = 0, length = 0;
    std::int32_t label = 0;
  };
  std::string root_, names_;
  std::vector<Entry> entries_;
};

// What image_dataset_from_directory reads: paths, with int32 labels when there are labels.
Dataset folder_paths(const std::string& directory, const ImageDirectoryOptions& options);

// Elements are (path) or (path, int32 label).
NodePtr make_files(FileTable table, bool labelled, std::string name);

}  // namespace surefit::data
