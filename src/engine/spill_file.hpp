// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace surefit {

// Room on disk for activations that do not fit into memory. The file has no name: whatever ends the
// process, nothing is left behind. All its blocks are reserved when it is made, so that a full disk
// shows before step 1.
class SpillFile {
 public:
  // In `directory`; throws SystemError where there is no room or no permission.
  SpillFile(const std::string& directory, std::size_t bytes);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  std::size_t bytes() const { return bytes_; }
  // From any thread; throw SystemError.
  void write(const std::byte* from, std::size_t count, std::size_t offset) const;
  void read(std::byte* to, std::size_t count, std::size_t offset) const;

 private:
  std::string directory_;
  std::size_t bytes_ = 0;
  int fd_ = -1;
};

}  // namespace surefit
