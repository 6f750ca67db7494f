// SPDX-License-Identifier: Apache-2.0
// Counts every malloc of the process, ours and the libraries'. For one source file of a program.
#pragma once

#include <atomic>
#include <cstdlib>
#include <malloc.h>

namespace {
std::atomic<long> allocations{0};
thread_local long own_allocations = 0;  // of the thread that asks
inline void note_allocation() {
  ++allocations;
  ++own_allocations;
}
}  // namespace

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsAllocations = false;  // sanitizers bring an allocator of their own
#else
constexpr bool kCountsAllocations = true;

// glibc's own allocator under other names, so that counting needs no allocator of ours.
extern "C" {
void* __libc_malloc(std::size_t);                       // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t, std::size_t);          // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void*, std::size_t);               // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t, std::size_t);        // NOLINT(bugprone-reserved-identifier)
void* malloc(std::size_t bytes) {
  note_allocation();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  note_allocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  note_allocation();
  return __libc_realloc(old, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  note_allocation();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  *out = memalign(alignment, bytes);
  return *out == nullptr ? 12 : 0;
}
}
#endif
