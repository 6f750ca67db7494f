// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/cgroup.hpp"

namespace surefit::guard {

// A memory group of our own for the child; empty path where not permitted (why() says so).
class OwnCgroup {
 public:
  OwnCgroup() = default;
  ~OwnCgroup() { remove(); }
  OwnCgroup(const OwnCgroup&) = delete;
  OwnCgroup& operator=(const OwnCgroup&) = delete;

  bool create(const CgroupChain& parent, const std::string& name, std::uint64_t limit);
  void set_limit(std::uint64_t limit);
  bool exists() const { return !path_.empty(); }
  const std::string& path() const { return path_; }
  const std::string& why() const { return why_; }
  std::string procs_file() const { return path_ + "/cgroup.procs"; }
  std::vector<pid_t> members() const;
  void remove();

 private:
  std::string path_, why_;
  bool v2_ = false;
};

}  // namespace surefit::guard
