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
#include <vector>

namespace surefit {

class ThreadPool {
 public:
  // `on_thread_start` runs once on every pool thread and on the constructing thread before any
  // work.
  explicit ThreadPool(int threads, const std::function<void()>& on_thread_start = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(index, thread) for every index in [0, count), each once, and returns when all are
  // done. Allocates nothing. Every thread begins with its own share of the indices, the same in
  // every call, so that what it wrote last time is still in its cache; who is done early takes from
  // the others. Which thread takes which index is therefore not fixed: a task's result must depend
  // on its index alone. Denormals are zero in all of them (denormals.hpp). Of the exceptions thrown,
  // that of the lowest index is rethrown here. Calls must not nest.
  template <typename Task>
  void parallel_for(std::size_t count, const Task& task) {
    run(
        count,
        [](const void* context, std::size_t index, int thread) {
          (*static_cast<const Task*>(context))(index, thread);
        },
        &task);
  }

 private:
  using Function = void (*)(const void* context, std::size_t index, int thread);
  void run(std::size_t count, Function function, const void* context);
  struct Share;
  void work(int thread);
  void work_on(Share& share, int thread);
  void worker_loop(int thread);

  const int spins_;
  std::vector<std::thread> workers_;
  // A round is published by raising `round_`; the fields below it are written before that and stay
  // fixed until `busy_` returns to zero.
  alignas(64) std::atomic<std::uint32_t> round_{0};
  Function function_ = nullptr;
  const void* context_ = nullptr;
  struct alignas(64) Share {
    std::atomic<std::size_t> next{0};
    std::size_t end = 0;
  };
  std::unique_ptr<Share[]> shares_;  // one per thread
  alignas(64) std::atomic<int> busy_{0};
  std::atomic<bool> failed_{false};
  std::atomic_flag failure_lock_ = ATOMIC_FLAG_INIT;
  std::size_t failed_index_ = 0;
  std::exception_ptr failure_;
  bool stop_ = false;
};

}  // namespace surefit
