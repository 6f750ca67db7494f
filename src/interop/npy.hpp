// SPDX-License-Identifier: Apache-2.0
// Numpy's array files (.npy) and archives (.npz). Any real numeric type comes in, of either byte
// order and either memory order; what comes out is row-major and little-endian. Objects (pickles)
// are refused. Bad files are DataError.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "surefit/tensor.hpp"

#include "base/env.hpp"
#include "interop/bytes.hpp"

namespace surefit {

struct NpyHeader {
  Shape shape;
  DType dtype = DType::kFloat32;
  bool fortran_order = false;
  bool big_endian = false;
  std::uint64_t header_bytes = 0;  // from the magic to the data

  std::uint64_t data_bytes() const { return shape.count() * size_of(dtype); }
  // Rows can be read straight from the file.
  bool plain() const { return !fortran_order && !big_endian; }
};

// Reads the header and leaves the stream at the data. `field` names the array in errors.
NpyHeader read_npy_header(ByteStream& stream, const std::string& field);
// Header and data; nothing may follow.
Tensor read_npy(ByteStream& stream, const std::string& field);
Tensor read_npy(Env& env, const std::string& path);
Tensor parse_npy(std::unique_ptr<ReadableFile> file, std::string name);
NpyHeader index_npy(Env& env, const std::string& path);

// Magic, header and padding as numpy 1.x writes them; the data follows directly.
std::string make_npy_header(DType dtype, const Shape& shape);
void write_npy(Env& env, const std::string& path, const Tensor& tensor);

struct NpzMember {
  NpyHeader header;
  bool stored = false;                       // not compressed
  std::optional<std::uint64_t> data_offset;  // of the array's data in the file, for stored members
};

// An open archive whose directory and array headers have been read and validated. Reading is
// thread-safe.
class NpzFile {
 public:
  static NpzFile open(Env& env, const std::string& path);
  static NpzFile parse(std::unique_ptr<ReadableFile> file, std::string name);

  const std::string& path() const { return source_->path(); }
  const std::vector<std::string>& names() const {
    return names_;
  }  // without ".npy", in archive order
  bool contains(std::string_view name) const { return members_.find(name) != members_.end(); }
  const NpzMember& member(std::string_view name) const;  // DataError when there is none
  // The whole array; its checksum is verified.
  Tensor read(std::string_view name) const;
  // Bytes of the data of a stored member that is plain(), without loading the rest. Bool bytes are
  // checked.
  void read_data(std::string_view name, std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  struct Record {
    NpzMember member;
    std::uint64_t offset = 0;  // of the member's bytes in the file
    std::uint64_t stored_bytes = 0;
    std::uint64_t bytes = 0;
    std::uint32_t crc = 0;
  };
  explicit NpzFile(Source source) : source_(std::make_unique<Source>(std::move(source))) {}
  const Record& record(std::string_view name) const;

  std::unique_ptr<Source> source_;
  std::vector<std::string> names_;
  std::map<std::string, Record, std::less<>> members_;
};

std::vector<NamedTensor> read_npz(Env& env, const std::string& path);

// A stored (uncompressed) archive that numpy loads; equal tensors give equal bytes. Whole file or
// none. Names are without ".npy"; ConfigError when one is empty, repeated or holds a path.
void write_npz(Env& env, const std::string& path, const std::vector<TensorRef>& tensors);

}  // namespace surefit
