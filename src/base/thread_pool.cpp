// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.hpp"

#include <system_error>
#include <utility>

#include "base/check.hpp"
#include "base/cores.hpp"
#include "base/denormals.hpp"

namespace surefit {
namespace {

// Kernels of a step follow each other within microseconds; sleeping in between would cost more than
// the work. Some 100 us of spinning, then the futex. With more threads than cores a spinner only
// keeps another from working. So it does where the system has put two threads on one core, as it
// does for tenths of a second at a time; hence a spinner that has waited for some microseconds
// offers its core now and then. (seed_cnn, batch 32, both threads on one core: 3.8 ms a step, 0.7 ms
// when they do so, 0.6 ms with one thread.)
constexpr int kSpins = 4000, kSpinsAlone = 128, kSpinsPerYield = 32;

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

template <typename T, typename Done>
void wait_until(std::atomic<T>& value, int spins, const Done& done) {
  for (;;) {
    T seen = value.load(std::memory_order_acquire);
    for (int spin = 0; spin < spins; ++spin) {
      if (done(seen)) return;
      relax();
      if (spin >= kSpinsAlone && spin % kSpinsPerYield == 0) std::this_thread::yield();
      seen = value.load(std::memory_order_acquire);
    }
    if (done(seen)) return;
    value.wait(seen, std::memory_order_acquire);
  }
}

}  // namespace

ThreadPool::ThreadPool(int threads, const std::function<void()>& on_thread_start)
    : spins_(threads <= usable_cores() ? kSpins : 0) {
  SUREFIT_CHECK(threads >= 1, "a pool of {} threads", threads);
  shares_ = std::make_unique<Share[]>(static_cast<std::size_t>(threads));
  if (on_thread_start) on_thread_start();
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  for (int thread = 1; thread < threads; ++thread) {
    try {
      workers_.emplace_back([this, thread, on_thread_start] {
        if (on_thread_start) on_thread_start();
        worker_loop(thread);
      });
    } catch (const std::system_error& error) {
      stop_ = true;
      round_.fetch_add(1, std::memory_order_release);
      round_.notify_all();
      for (std::thread& worker : workers_) worker.join();
      throw SystemError(
          fmt::format("[threads] cannot start thread {} of {}: {}; lower --threads or raise "
                      "the process limit (ulimit -u)",
                      thread + 1, threads, error.what()),
          error.code().value());
    }
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::size_t count, Function function, const void* context) {
  if (count == 0) return;
  const DenormalsAreZero mode;
  if (count == 1 || workers_.empty()) {
    for (std::size_t index = 0; index < count; ++index) function(context, index, 0);
    return;
  }
  function_ = function;
  context_ = context;
  const std::size_t threads = workers_.size() + 1;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    shares_[thread].next.store(count * thread / threads, std::memory_order_relaxed);
    shares_[thread].end = count * (thread + 1) / threads;
  }
  busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  work(0);
  wait_until(busy_, spins_, [](int busy) { return busy == 0; });
  if (failed_.load(std::memory_order_relaxed)) {
    failed_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

void ThreadPool::work(int thread) {
  const int threads = this->threads();
  for (int turn = 0; turn < threads; ++turn) work_on(shares_[(thread + turn) % threads], thread);
}

void ThreadPool::work_on(Share& share, int thread) {
  for (;;) {
    const std::size_t index = share.next.fetch_add(1, std::memory_order_relaxed);
    if (index >= share.end) return;
    try {
      function_(context_, index, thread);
    } catch (...) {
      while (failure_lock_.test_and_set(std::memory_order_acquire)) relax();
      if (!failed_.load(std::memory_order_relaxed) || index < failed_index_) {
        failed_.store(true, std::memory_order_relaxed);
        failed_index_ = index;
        failure_ = std::current_exception();
      }
      failure_lock_.clear(std::memory_order_release);
    }
  }
}

void ThreadPool::worker_loop(int thread) {
  const DenormalsAreZero mode;
  std::uint32_t seen = 0;
  for (;;) {
    wait_until(round_, spins_, [&](std::uint32_t round) { return round != seen; });
    ++seen;
    if (stop_) return;
    work(thread);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace surefit
