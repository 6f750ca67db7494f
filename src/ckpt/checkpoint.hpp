// SPDX-License-Identifier: Apache-2.0
// A checkpoint is a safetensors file whose last tensor, `__surefit__`, is a record that can prove
// the rest: the state as JSON, a hash of the header and of every tensor, and a hash of itself.
// docs/formats/checkpoint.md has the bytes. A file is written whole or not at all, and read whole
// and verified or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.hpp"
#include "interop/safetensors.hpp"

namespace surefit {

inline constexpr std::string_view kRecordTensor = "__surefit__";

// Gives the bytes of the tensors, one after the other; each span is valid until the next call. So a
// writer needs no second copy of the state.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual std::span<const std::byte> tensor(std::size_t index) = 0;
};

struct CheckpointContent {
  std::span<const SafetensorsSpec> tensors;
  std::uint64_t step = 0;
  std::string_view state;  // JSON
};

// A NaN or Inf among the tensors: such a state must not replace a finite one.
class NotFinite : public DataError {
 public:
  explicit NotFinite(const std::string& text) : DataError(text) {}
};

// Temp file in the same directory, reserved, written, synced, renamed, directory synced. Returns
// the bytes of the file. After an exception no new file is there, except when only the directory's
// sync failed: then the file is complete but may be lost by a power cut. Throws SystemError or
// NotFinite. A failed sync is never tried again on the same file: each call makes a new one.
std::uint64_t write_checkpoint(Env& env, const std::string& path, const CheckpointContent& content,
                               TensorSource& source);

// A checkpoint whose every byte has been checked.
class CheckpointFile {
 public:
  // Reads the whole file once, in small pieces. Throws DataError saying what is wrong with it,
  // SystemError when it cannot be read.
  static CheckpointFile open(Env& env, const std::string& path);

  const std::string& path() const { return file_.path(); }
  std::uint64_t step() const { return step_; }
  const std::string& state() const { return state_; }  // JSON
  std::uint64_t bytes() const { return bytes_; }
  // Without the record, in the order of the file.
  const std::vector<std::string>& names() const { return names_; }
  bool contains(std::string_view name) const { return file_.contains(name); }
  const SafetensorsEntry& entry(std::string_view name) const { return file_.entry(name); }
  // Checked again while reading: the file may have changed since.
  void read_into(std::string_view name, std::span<std::byte> bytes) const;

 private:
  explicit CheckpointFile(SafetensorsFile file) : file_(std::move(file)) {}
  void check_record();
  void check_tensors(const ReadableFile& file) const;

  SafetensorsFile file_;
  std::vector<std::string> names_;
  std::vector<std::uint64_t> hashes_;  // as names_
  std::uint64_t step_ = 0, header_hash_ = 0, bytes_ = 0;
  std::string state_;
};

}  // namespace surefit
