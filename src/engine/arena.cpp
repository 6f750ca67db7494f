// SPDX-License-Identifier: Apache-2.0
#include "engine/arena.hpp"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.hpp"
#include "base/units.hpp"

namespace surefit {

namespace {

std::size_t page_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::size_t Arena::in_pages(std::size_t bytes) {
  const std::size_t page = page_bytes();
  return (bytes + page - 1) / page * page;
}

Arena::Arena(std::size_t bytes) : bytes_(in_pages(bytes)) {
  if (bytes_ == 0) return;
  void* memory =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw SystemError(
        fmt::format(
            "[memory] the system refused {}: {}; lower --memory or raise the limit (ulimit -v)",
            format_bytes(bytes_), std::strerror(errno)),
        errno);
  }
  base_ = static_cast<std::byte*>(memory);
  // Huge pages would make the resident size jump in steps that no plan predicts, and were measured
  // to gain nothing.
  ::madvise(base_, bytes_, MADV_NOHUGEPAGE);
  const std::size_t page = page_bytes();
  for (std::size_t at = 0; at < bytes_; at += page) base_[at] = std::byte{0};
}

Arena::~Arena() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

}  // namespace surefit
