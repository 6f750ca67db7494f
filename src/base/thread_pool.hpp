// SPDX-License-Identifier: Apache-2.0
// The one pool of the process. The caller works along, so a pool of n has n - 1 threads of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <type_traits>

namespace surefit {

class ThreadPool {
 public:
  // `on_thread_start` runs once on every pool thread and on the constructing thread before any
  // work.
  explicit ThreadPool(int threads, const std::function<void()>& on_thread_start = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // What a thread does that is done with its share of a round while another has not begun all of
  // its own.
  enum class Early : std::uint8_t {
    kHelps,  // takes some of them, should the other be held up
    kWaits,  // for rounds that are over before it could tell: nobody counts what is taken
  };

  // Calls task(index, thread) for every index in [0, count), each once, and returns when all are
  // done. Allocates nothing. Every thread begins with its own share of the indices, the same in
  // every call, so that what it wrote last time is still in its cache. Which thread takes which
  // index is not fixed where they help each other: a task's result must depend on its index alone.
  // Denormals are zero in all of them (denormals.hpp). Of the exceptions thrown, that of the lowest
  // index is rethrown here. Calls must not nest.
  template <typename Task>
  void parallel_for(std::size_t count, const Task& task, Early early = Early::kHelps) {
    if constexpr (std::is_trivially_copyable_v<Task> && sizeof(Task) <= kCarriedBytes) {
      const auto call = [](const void* carried, std::size_t index, int thread) {
        (*static_cast<const Task*>(carried))(index, thread);
      };
      run(count, early, call, &task, sizeof(task));
    } else {
      const Task* const where = &task;
      const auto call = [](const void* carried, std::size_t index, int thread) {
        (**static_cast<const Task* const*>(carried))(index, thread);
      };
      run(count, early, call, &where, sizeof(where));
    }
  }

  // A trivially copyable task of at most so many bytes reaches the other threads with the
  // announcement itself. A larger one, and whatever a task refers to, costs each of them the way to
  // another core's cache once more.
  static constexpr std::size_t kCarriedBytes = 48;

 private:
  using Function = void (*)(const void* carried, std::size_t index, int thread);

  // One line, which only the caller of parallel_for writes: all else first, then `round`. It stays
  // fixed until every worker is done with the round.
  struct alignas(64) Announcement {
    std::atomic<std::uint32_t> round{0};
    std::uint32_t count : 31 = 0;
    std::uint32_t helps : 1 = 0;  // Early::kHelps
    Function function = nullptr;  // none: the pool ends
    alignas(8) std::byte carried[kCarriedBytes];
  };
  // A thread's share of the indices: the round in the upper half, and how many of the share are
  // taken in the lower. Whoever comes first in a round begins to count, so that the announcement
  // need not touch a line that lies in the owner's cache.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> taken{0};
  };
  struct Indices {
    std::uint64_t begin, count;
  };
  struct alignas(64) Worker {
    std::atomic<std::uint32_t> done{0};  // the last round in which it found nothing more to do
    std::thread thread;
  };

  void run(std::size_t count, Early early, Function function, const void* carried,
           std::size_t bytes);
  void work(int thread);
  void work_on(int owner, int thread);
  void run_task(std::size_t index, int thread);
  bool all_begun() const;
  Indices share_of(int owner) const;
  std::uint64_t taken_in_round(std::uint64_t taken) const;
  void worker_loop(int thread);
  void join(std::size_t workers);

  const int spins_, patience_;
  const int threads_;
  Announcement announced_;
  std::unique_ptr<Share[]> shares_;    // one per thread
  std::unique_ptr<Worker[]> workers_;  // of all threads but the caller
  // Who has given up spinning and must be woken.
  alignas(64) std::atomic<int> workers_asleep_{0};
  alignas(64) std::atomic<int> caller_asleep_{0};
  std::atomic<bool> failed_{false};
  std::atomic_flag failure_lock_ = ATOMIC_FLAG_INIT;
  std::size_t failed_index_ = 0;
  std::exception_ptr failure_;
};

}  // namespace surefit
