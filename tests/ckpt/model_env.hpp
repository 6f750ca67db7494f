// SPDX-License-Identifier: Apache-2.0
// A file system in memory that forgets what was not synced. It counts operations, can fail any one
// of them, can crash behind any one of them, and lists what a disk might hold after the crash:
// unsynced writes dropped, torn at sectors or in another order, directory changes lost one by one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/env.hpp"

namespace surefit {

// Not an Error: nobody may catch it and go on.
struct Crash {};

class ModelEnv final : public Env {
 public:
  using Files = std::map<std::string, std::string>;  // path -> bytes
  struct Fault {
    int at = -1;  // operation, from 0
    int error = 0;
    bool sticky = false;      // and every one behind it
    bool half_write = false;  // a write puts half of its bytes before it fails
  };

  ModelEnv() = default;
  explicit ModelEnv(const Files& files);  // all durable

  void crash_behind(int operation) { crash_at_ = operation; }
  void fail(const Fault& fault) { fault_ = fault; }
  int operations() const { return operation_; }
  void restart_count() { operation_ = 0; }
  const std::vector<std::string>& log() const { return log_; }
  Files files() const;  // as programs see them now

  // Negative controls: a system that does not do what it is asked.
  bool ignore_sync = false, ignore_directory_sync = false;

  // What might be there after the power comes back: nothing, everything or half of what was not
  // synced, the first `singles` writes alone, left out or as a beginning, and `random` samples.
  std::vector<Files> after_crash(std::mt19937& generator, int random, int singles = 12) const;

  std::unique_ptr<ReadableFile> open_read(const std::string& path) override;
  std::unique_ptr<WritableFile> create(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void remove(const std::string& path) override;
  void sync_directory(const std::string& path) override;
  void make_directories(const std::string& path) override;
  bool exists(const std::string& path) override;
  std::vector<std::string> list(const std::string& directory) override;
  std::uint64_t free_bytes(const std::string&) override { return 1 << 30; }

 private:
  friend class ModelFile;
  struct Write {
    std::size_t offset;
    std::string bytes;
  };
  struct Inode {
    std::string now, durable;
    std::vector<Write> pending;
  };
  struct Change {          // of the directory
    std::string from, to;  // to empty: removed; from empty: created
    std::shared_ptr<Inode> inode;
  };
  using Directory = std::map<std::string, std::shared_ptr<Inode>>;

  // Counts, fails; `apply` is what happens if it does not fail. Crashes behind it.
  template <typename Apply>
  void operate(const std::string& name, const std::string& path, const Apply& apply);
  static void play(Directory& directory, const Change& change);
  static std::string survivor(const Inode& inode, const std::vector<bool>& kept, bool torn,
                              std::mt19937& generator);

  Directory now_, durable_;
  std::vector<Change> changes_;  // of the directory, since its last sync
  std::vector<std::string> log_;
  int operation_ = 0, crash_at_ = -1;
  bool crashed_ = false;
  Fault fault_;
};

}  // namespace surefit
