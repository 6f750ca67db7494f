// SPDX-License-Identifier: Apache-2.0
#include "base/env.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

#include "base/check.hpp"

namespace surefit {
namespace {

[[noreturn]] void fail(const char* operation, const std::string& path, int error_number) {
  throw SystemError(fmt::format("[{}] cannot {}: {}", path, operation, std::strerror(error_number)),
                    error_number);
}

class PosixReadable final : public ReadableFile {
 public:
  PosixReadable(int fd, std::string path, std::uint64_t size)
      : fd_(fd), path_(std::move(path)), size_(size) {}
  ~PosixReadable() override { ::close(fd_); }
  PosixReadable(const PosixReadable&) = delete;
  PosixReadable& operator=(const PosixReadable&) = delete;

  std::uint64_t size() const override { return size_; }

  std::size_t read_at(std::uint64_t offset, std::span<std::byte> buffer) const override {
    std::size_t done = 0;
    while (done < buffer.size()) {
      const ssize_t got = ::pread(fd_, buffer.data() + done, buffer.size() - done,
                                  static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("read", path_, errno);
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

 private:
  int fd_;
  std::string path_;
  std::uint64_t size_;
};

class PosixWritable final : public WritableFile {
 public:
  PosixWritable(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~PosixWritable() override {
    if (fd_ >= 0) ::close(fd_);
  }
  PosixWritable(const PosixWritable&) = delete;
  PosixWritable& operator=(const PosixWritable&) = delete;

  void preallocate(std::uint64_t bytes) override {
    if (bytes == 0) return;
    // The size stays 0, so that a reader never sees reserved bytes as data. Some file systems
    // cannot reserve; then ENOSPC shows up at the write instead.
    while (::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) != 0) {
      if (errno == EINTR) continue;
      if (errno == EOPNOTSUPP || errno == EINVAL || errno == ENOSYS) return;
      fail("reserve space for", path_, errno);
    }
  }

  void append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail("write", path_, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
  }

  void sync() override {
    if (::fdatasync(fd_) != 0) fail("sync", path_, errno);
  }

  void close() override {
    const int fd = std::exchange(fd_, -1);
    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) fail("close", path_, errno);
  }

 private:
  int fd_;
  std::string path_;
};

class PosixEnv final : public Env {
 public:
  std::unique_ptr<ReadableFile> open_read(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail("open", path, errno);
    struct stat status {};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
      const int error = S_ISDIR(status.st_mode) ? EISDIR : (errno != 0 ? errno : EINVAL);
      ::close(fd);
      fail("open as a file", path, error);
    }
    return std::make_unique<PosixReadable>(fd, path, static_cast<std::uint64_t>(status.st_size));
  }

  std::unique_ptr<WritableFile> create(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) fail("create", path, errno);
    return std::make_unique<PosixWritable>(fd, path);
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail("rename to its final name", from, errno);
  }

  void remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) fail("remove", path, errno);
  }

  void sync_directory(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) fail("open directory", path, errno);
    const int result = ::fsync(fd);
    const int error = errno;
    ::close(fd);
    // Some file systems (overlay, network) refuse to sync directories; nothing more can be done
    // there.
    if (result != 0 && error != EINVAL && error != EROFS) fail("sync directory", path, error);
  }

  void make_directories(const std::string& path) override {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) fail("create directory", path, error.value());
  }

  bool exists(const std::string& path) override {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0;
  }

  std::vector<std::string> list(const std::string& directory) override {
    std::error_code error;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
         it.increment(error)) {
      names.push_back(it->path().filename().string());
    }
    if (error) fail("list directory", directory, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::uint64_t free_bytes(const std::string& path) override {
    struct statvfs status {};
    if (::statvfs(path.c_str(), &status) != 0) fail("query free space of", path, errno);
    return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
  }
};

}  // namespace

Env& Env::posix() {
  static PosixEnv env;
  return env;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string read_file(Env& env, const std::string& path, std::uint64_t limit) {
  const auto file = env.open_read(path);
  if (file->size() > limit) {
    throw DataError(fmt::format("[{}] file too large; expected at most {} bytes; got {}", path,
                                limit, file->size()),
                    path);
  }
  std::string text(file->size(), '\0');
  const std::size_t got = file->read_at(0, std::as_writable_bytes(std::span(text)));
  text.resize(got);
  return text;
}

void write_file_atomically(Env& env, const std::string& path,
                           const std::function<void(WritableFile&)>& write) {
  const std::string partial = path + ".partial";
  try {
    // What a crash or a failed sync left is never written to again: its pages count as clean,
    // though they may not have reached the disk.
    if (env.exists(partial)) env.remove(partial);
    const auto file = env.create(partial);
    write(*file);
    file->sync();
    file->close();
    env.rename(partial, path);
  } catch (...) {
    try {
      if (env.exists(partial)) env.remove(partial);
    } catch (const Error&) {  // the first error is the one to report
    }
    throw;
  }
  env.sync_directory(directory_of(path));
}

}  // namespace surefit
