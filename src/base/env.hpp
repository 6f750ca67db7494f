// SPDX-License-Identifier: Apache-2.0
// Files behind a seam, so that tests can inject faults and crashes at every operation. Errors are
// SystemError with errno, naming path and operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace surefit {

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual std::uint64_t size() const = 0;
  // Reads up to buffer.size() bytes at `offset`; fewer only at the end of the file. Thread-safe.
  virtual std::size_t read_at(std::uint64_t offset, std::span<std::byte> buffer) const = 0;
};

class WritableFile {
 public:
  virtual ~WritableFile() = default;                          // closes without syncing
  virtual void preallocate(std::uint64_t bytes) = 0;          // ENOSPC now rather than halfway
  virtual void append(std::span<const std::byte> bytes) = 0;  // all or throws
  virtual void sync() = 0;  // fdatasync; a failure is final for this file
  virtual void close() = 0;
};

class Env {
 public:
  virtual ~Env() = default;
  static Env& posix();

  virtual std::unique_ptr<ReadableFile> open_read(const std::string& path) = 0;
  virtual std::unique_ptr<WritableFile> create(const std::string& path) = 0;  // truncates
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& path) = 0;
  virtual void sync_directory(const std::string& path) = 0;
  virtual void make_directories(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  virtual std::vector<std::string> list(const std::string& directory) = 0;  // names, sorted
  virtual std::uint64_t free_bytes(const std::string& path) = 0;
};

// Reads a whole file, at most `limit` bytes.
std::string read_file(Env& env, const std::string& path,
                      std::uint64_t limit = std::uint64_t{1} << 40);

// Writes beside `path`, syncs, renames over it and syncs the directory: readers see the old file or
// the new one, and a failure leaves no partial file behind.
void write_file_atomically(Env& env, const std::string& path,
                           const std::function<void(WritableFile&)>& write);

std::string directory_of(const std::string& path);

}  // namespace surefit
