// SPDX-License-Identifier: Apache-2.0
// What every parser of untrusted files shares: checked reads with errors that name file, field and
// offset, and streams of stored, deflated or gzipped bytes. Lengths found in a file are checked
// against what the file can hold before anything is allocated for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "surefit/tensor.hpp"

#include "base/env.hpp"

namespace surefit {

// A tensor to be written under a name; refers, does not copy.
struct TensorRef {
  std::string name;
  const Tensor& tensor;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Bytes in memory as a file, for parsers fed from elsewhere (archives, fuzzers). Owns its bytes.
class MemoryFile final : public ReadableFile {
 public:
  explicit MemoryFile(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  explicit MemoryFile(std::span<const std::byte> bytes) : bytes_(bytes.begin(), bytes.end()) {}
  explicit MemoryFile(std::string_view text) : MemoryFile(std::as_bytes(std::span(text))) {}
  std::uint64_t size() const override { return bytes_.size(); }
  std::size_t read_at(std::uint64_t offset, std::span<std::byte> buffer) const override;

 private:
  std::vector<std::byte> bytes_;
};

// Throws DataError "[path: field] what; expected ...; got ... (byte N)".
struct Complaint {
  std::string_view field;
  std::string_view what;
  std::string expected;
  std::string got;
  std::uint64_t offset;
};
[[noreturn]] void refuse(const std::string& path, const Complaint& complaint);

// Text from a file, fit for an error message: printable, shortened.
std::string in_quotes(std::string_view text);

// A file with its name for errors.
class Source {
 public:
  Source(std::unique_ptr<ReadableFile> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}
  const std::string& path() const { return path_; }
  std::uint64_t size() const { return file_->size(); }
  const ReadableFile& file() const { return *file_; }
  // All of `buffer` or DataError: the file ends before `field` does.
  void read_exact(std::uint64_t offset, std::span<std::byte> buffer, std::string_view field) const;

 private:
  std::unique_ptr<ReadableFile> file_;
  std::string path_;
};

// Bytes in order, from a part of a file.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Reads up to buffer.size() bytes; fewer only at the end. Throws DataError when the bytes cannot
  // be decoded.
  virtual std::size_t read(std::span<std::byte> buffer) = 0;
  // The most bytes the stream can still hold, by the laws of its encoding: a bound for allocations.
  virtual std::uint64_t most_bytes() const = 0;
  virtual const std::string& path() const = 0;
  // The offset that errors name: in the file, or in the unpacked bytes of compressed data.
  virtual std::uint64_t position() const = 0;

  void read_exact(std::span<std::byte> buffer, std::string_view field);
  void require_end(std::string_view field);
};

enum class Encoding { kStored, kDeflate, kGzip };

// The stream over [offset, offset + bytes) of the source, which must outlive it; the range must lie
// within the file.
std::unique_ptr<ByteStream> open_stream(const Source& source, std::uint64_t offset,
                                        std::uint64_t bytes, Encoding encoding);

// A shape from extents found in a file: rank at most 32 and bytes that fit, or DataError.
Shape checked_shape(std::vector<std::int64_t> dims, DType dtype, const std::string& path,
                    std::string_view field, std::uint64_t offset);

// Reverses the bytes of each element (big-endian files).
void swap_bytes(std::span<std::byte> bytes, std::size_t element_bytes);

// A bool that is neither 0 nor 1 is undefined behaviour in C++, so it may not get in.
void require_bools(std::span<const std::byte> bytes, const std::string& path,
                   std::string_view field, std::uint64_t offset);

template <typename T>
T little_endian(std::span<const std::byte> bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) {
    value = static_cast<T>(static_cast<std::uint64_t>(value) << (sizeof(T) > 1 ? 8 : 0) |
                           static_cast<std::uint64_t>(bytes[at + i]));
  }
  return value;
}

template <typename T>
void put_little_endian(std::vector<std::byte>& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i)));
  }
}

}  // namespace surefit
