// SPDX-License-Identifier: Apache-2.0
// /dev/kmsg from the moment of opening on; records that name a process of ours, or memory as a
// whole, are kept.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "guard/evidence.hpp"

namespace surefit::guard {

class KernelLog {
 public:
  KernelLog();
  ~KernelLog();
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;
  bool readable() const { return fd_ >= 0; }
  // Passes every new record of interest on.
  void collect(const std::function<void(KernelRecord&&)>& take);

 private:
  int fd_ = -1;
};

// One line of the kernel log, without its prefix. Nothing where it is of no interest.
std::optional<KernelRecord> parse_kernel_record(std::string_view message);

}  // namespace surefit::guard
