// SPDX-License-Identifier: Apache-2.0
#include "data/sources/rows.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include <xxhash.h>

namespace surefit::data {
namespace {

class FileRows final : public Node {
 public:
  explicit FileRows(std::vector<FileArray> arrays) : Node({}), arrays_(std::move(arrays)) {
    if (arrays_.empty()) throw ConfigError("[file rows] no arrays; expected at least one");
    for (const FileArray& array : arrays_) {
      if (array.shape.rank() == 0 || array.shape[0] != arrays_[0].shape[0]) {
        throw DataError(fmt::format("[{}] the arrays differ in length: {} and {}", array.path,
                                    arrays_[0].shape.to_string(), array.shape.to_string()),
                        array.path);
      }
      rows_.push_back({array.dtype, Dims(array.shape.drop_front())});
    }
  }

  std::string describe() const override {
    return fmt::format("file_rows({})", arrays_[0].shape[0]);
  }
  std::vector<ComponentSpec> spec() const override { return rows_; }
  bool only_copies() const override { return true; }
  std::optional<std::uint64_t> size() const override {
    return static_cast<std::uint64_t>(arrays_[0].shape[0]);
  }

  void read(Position at, Sample& out, Worker&) const override {
    out.resize(rows_.size());
    out.place(at.index, at.pass);
    out.set_path(arrays_[0].path);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const std::span<std::byte> bytes = out[i].replace(rows_[i].dtype, rows_[i].dims).bytes;
      const std::uint64_t offset = arrays_[i].offset + at.index * bytes.size();
      if (arrays_[i].file->read_at(offset, bytes) != bytes.size()) {
        throw DataError(fmt::format("[{}] the file ends in row {}; was it cut while in use?",
                                    arrays_[i].path, at.index),
                        arrays_[i].path, static_cast<std::int64_t>(offset));
      }
      if (rows_[i].dtype == DType::kBool &&
          std::any_of(bytes.begin(), bytes.end(),
                      [](std::byte value) { return value > std::byte{1}; })) {
        throw DataError(fmt::format("[{}] row {} holds a bool that is neither 0 nor 1",
                                    arrays_[i].path, at.index),
                        arrays_[i].path, static_cast<std::int64_t>(offset));
      }
    }
  }

  // Shapes and evenly spaced blocks of contents: a resume must not read the whole file.
  std::uint64_t fingerprint() const override {
    constexpr std::uint64_t kBlocks = 64;
    std::array<std::byte, 4096> block;
    std::uint64_t hash = 0;
    for (const FileArray& array : arrays_) {
      const std::string head = fmt::format("{}{}", name_of(array.dtype), array.shape.to_string());
      hash = XXH3_64bits_withSeed(head.data(), head.size(), hash);
      const std::uint64_t bytes = array.shape.count() * size_of(array.dtype);
      for (std::uint64_t i = 0; i < kBlocks; ++i) {
        const std::size_t got = array.file->read_at(array.offset + bytes / kBlocks * i, block);
        hash = XXH3_64bits_withSeed(block.data(), got, hash);
      }
    }
    return hash;
  }

 private:
  std::vector<FileArray> arrays_;
  std::vector<ComponentSpec> rows_;
};

}  // namespace

NodePtr make_file_rows(std::vector<FileArray> arrays) {
  return std::make_shared<FileRows>(std::move(arrays));
}

}  // namespace surefit::data
