// SPDX-License-Identifier: Apache-2.0
// Safetensors (https://huggingface.co/docs/safetensors): 8 bytes of little-endian header length, a
// JSON header, then the tensors' bytes, little-endian and row-major, without holes. Bad files are
// DataError, never a crash.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "surefit/tensor.hpp"

#include "base/env.hpp"
#include "interop/bytes.hpp"

namespace surefit {

using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsEntry {
  Shape shape;
  DType dtype = DType::kFloat32;
  std::uint64_t offset = 0;  // from the start of the file
  std::uint64_t bytes = 0;
};

// An open file whose header has been read and validated; tensors are read on demand. Reading is
// thread-safe.
class SafetensorsFile {
 public:
  static SafetensorsFile open(Env& env, const std::string& path);
  // `name` stands for the path in errors.
  static SafetensorsFile parse(std::unique_ptr<ReadableFile> file, std::string name);

  const std::string& path() const { return source_.path(); }
  const std::vector<std::string>& names() const { return names_; }  // in the order of their data
  bool contains(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  const SafetensorsEntry& entry(std::string_view name) const;  // DataError when there is none
  const SafetensorsMetadata& metadata() const { return metadata_; }

  Tensor read(std::string_view name) const;
  // `bytes` must have exactly the entry's size (ConfigError).
  void read_into(std::string_view name, std::span<std::byte> bytes) const;
  // The tensor's bytes from `begin` on; must lie within it (ConfigError).
  void read_part(std::string_view name, std::uint64_t begin, std::span<std::byte> bytes) const;

 private:
  explicit SafetensorsFile(Source source) : source_(std::move(source)) {}
  void parse_header();
  void order_and_check(std::uint64_t data_start);

  Source source_;
  std::vector<std::string> names_;
  std::map<std::string, SafetensorsEntry, std::less<>> entries_;
  SafetensorsMetadata metadata_;
};

struct SafetensorsSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
};

// Writes the header at once and then takes the tensors' bytes in the order of the specs, in pieces
// of any size: no second copy of the data in memory. Equal specs and bytes give equal files.
class SafetensorsWriter {
 public:
  // Reserves the file's whole size and writes the header. ConfigError for an empty, repeated or
  // reserved name or one that is not UTF-8. `file` must outlive the writer and be empty.
  SafetensorsWriter(WritableFile& file, std::vector<SafetensorsSpec> specs,
                    const SafetensorsMetadata& metadata = {});

  static std::uint64_t file_bytes(const std::vector<SafetensorsSpec>& specs,
                                  const SafetensorsMetadata& metadata = {});

  std::uint64_t total_bytes() const { return total_bytes_; }
  std::uint64_t position() const { return position_; }  // bytes of the file written so far

  // The next bytes of the data; they may cross from one tensor to the next.
  void append(std::span<const std::byte> bytes);
  // One whole tensor, which must be the next in order and of its spec's type and shape.
  void append(std::string_view name, const Tensor& tensor);
  // Must be called once all bytes are there: a file that lacks some would be corrupt.
  void finish() const;

 private:
  WritableFile& file_;
  std::vector<SafetensorsSpec> specs_;
  std::size_t next_spec_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t total_bytes_ = 0;
};

// Whole file or none: written beside `path` and renamed over it.
void write_safetensors(Env& env, const std::string& path, const std::vector<TensorRef>& tensors,
                       const SafetensorsMetadata& metadata = {});

}  // namespace surefit
