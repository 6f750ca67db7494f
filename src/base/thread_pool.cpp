// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.hpp"

#include <cstring>
#include <limits>
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
// offers its core now and then. (seed_cnn, batch 32, both threads on one core: 3.8 ms a step, 0.7
// ms when they do so, 0.6 ms with one thread.)
constexpr int kSpins = 4000, kSpinsAlone = 128, kSpinsPerYield = 32;
// Some 16 us, and how often a thread looks meanwhile whether the others have begun all they have.
constexpr int kPatience = 512, kSpinsPerLook = 8;

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Returns when `value` is `wanted`; `before_sleep` runs each time before this thread gives up
// spinning. Who sets the value looks at `asleep` behind that, and wakes.
template <typename BeforeSleep>
void wait_for(const std::atomic<std::uint32_t>& value, std::uint32_t wanted, int spins,
              std::atomic<int>& asleep, const BeforeSleep& before_sleep) {
  for (;;) {
    for (int spin = 0; spin < spins; ++spin) {
      if (value.load(std::memory_order_acquire) == wanted) return;
      relax();
      if (spin >= kSpinsAlone && spin % kSpinsPerYield == 0) std::this_thread::yield();
    }
    before_sleep();
    asleep.fetch_add(1);
    const std::uint32_t seen = value.load();
    if (seen != wanted) value.wait(seen);
    asleep.fetch_sub(1);
    if (value.load(std::memory_order_acquire) == wanted) return;
  }
}

}  // namespace

ThreadPool::ThreadPool(int threads, const std::function<void()>& on_thread_start)
    : spins_(threads <= usable_cores() ? kSpins : 0),
      patience_(spins_ > 0 ? kPatience : 0),
      threads_(threads) {
  SUREFIT_CHECK(threads >= 1, "a pool of {} threads", threads);
  const auto others = static_cast<std::size_t>(threads - 1);
  shares_ = std::make_unique<Share[]>(others + 1);
  workers_ = std::make_unique<Worker[]>(others);
  if (on_thread_start) on_thread_start();
  for (std::size_t worker = 0; worker < others; ++worker) {
    try {
      workers_[worker].thread = std::thread([this, worker, on_thread_start] {
        if (on_thread_start) on_thread_start();
        worker_loop(static_cast<int>(worker) + 1);
      });
    } catch (const std::system_error& error) {
      join(worker);
      throw SystemError(
          fmt::format("[threads] cannot start thread {} of {}: {}; lower --threads or raise "
                      "the process limit (ulimit -u)",
                      worker + 2, threads, error.what()),
          error.code().value());
    }
  }
}

ThreadPool::~ThreadPool() {
  join(static_cast<std::size_t>(threads_ - 1));
}

void ThreadPool::join(std::size_t workers) {
  announced_.function = nullptr;
  announced_.round.fetch_add(1);
  announced_.round.notify_all();
  for (std::size_t worker = 0; worker < workers; ++worker) workers_[worker].thread.join();
}

void ThreadPool::run(std::size_t count, Early early, Function function, const void* carried,
                     std::size_t bytes) {
  if (count == 0) return;
  const DenormalsAreZero mode;
  if (count == 1 || threads_ == 1) {
    for (std::size_t index = 0; index < count; ++index) function(carried, index, 0);
    return;
  }
  SUREFIT_CHECK(count <= std::numeric_limits<std::int32_t>::max(), "{} tasks", count);
  announced_.function = function;
  announced_.count = static_cast<std::uint32_t>(count) & 0x7fffffff;
  announced_.helps = early == Early::kHelps;
  std::memcpy(announced_.carried, carried, bytes);
  const std::uint32_t round = announced_.round.load(std::memory_order_relaxed) + 1;
  // Not a barrier: the line comes from another core's cache, and the work need not wait for it. A
  // worker that falls asleep just now is therefore missed here, and woken before the caller sleeps.
  announced_.round.store(round, std::memory_order_release);
  if (workers_asleep_.load(std::memory_order_relaxed) > 0) announced_.round.notify_all();
  work(0);
  for (int worker = 0; worker + 1 < threads_; ++worker) {
    wait_for(workers_[static_cast<std::size_t>(worker)].done, round, spins_, caller_asleep_, [&] {
      if (workers_asleep_.fetch_add(0) > 0) announced_.round.notify_all();
    });
  }
  if (failed_.load(std::memory_order_relaxed)) {
    failed_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

// Its own share first. Then, should another thread be held up, what that one has not begun. It
// takes patience to tell: a task that changes cores takes its data along, so one that is about to
// be begun is better left where it is. (With more threads than cores any of them may be without a
// core, and nobody waits.)
void ThreadPool::work(int thread) {
  if (!announced_.helps) {
    const Indices share = share_of(thread);
    for (std::uint64_t i = 0; i < share.count; ++i) run_task(share.begin + i, thread);
    return;
  }
  work_on(thread, thread);
  for (int spin = 0; spin < patience_; ++spin) {
    if (spin % kSpinsPerLook == 0 && all_begun()) return;
    relax();
    if (spin >= kSpinsAlone && spin % kSpinsPerYield == 0) std::this_thread::yield();
  }
  for (int turn = 1; turn < threads_; ++turn) work_on((thread + turn) % threads_, thread);
}

bool ThreadPool::all_begun() const {
  for (int owner = 0; owner < threads_; ++owner) {
    const Indices share = share_of(owner);
    const std::uint64_t seen =
        shares_[static_cast<std::size_t>(owner)].taken.load(std::memory_order_relaxed);
    if (taken_in_round(seen) < share.count) return false;
  }
  return true;
}

ThreadPool::Indices ThreadPool::share_of(int owner) const {
  const auto before = [&](int threads) {
    return std::uint64_t{announced_.count} * static_cast<unsigned>(threads) /
           static_cast<unsigned>(threads_);
  };
  return {before(owner), before(owner + 1) - before(owner)};
}

std::uint64_t ThreadPool::taken_in_round(std::uint64_t taken) const {
  return taken >> 32 == announced_.round.load(std::memory_order_relaxed) ? taken & 0xffffffff : 0;
}

void ThreadPool::work_on(int owner, int thread) {
  const std::uint64_t round = announced_.round.load(std::memory_order_relaxed);
  const Indices share = share_of(owner);
  std::atomic<std::uint64_t>& state = shares_[static_cast<std::size_t>(owner)].taken;
  std::uint64_t seen = state.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t taken = taken_in_round(seen);
    if (taken >= share.count) return;
    const std::uint64_t next = round << 32 | (taken + 1);
    if (!state.compare_exchange_weak(seen, next, std::memory_order_relaxed)) continue;
    seen = next;
    run_task(share.begin + taken, thread);
  }
}

void ThreadPool::run_task(std::size_t index, int thread) {
  try {
    announced_.function(announced_.carried, index, thread);
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

void ThreadPool::worker_loop(int thread) {
  const DenormalsAreZero mode;
  std::atomic<std::uint32_t>& done = workers_[static_cast<std::size_t>(thread - 1)].done;
  for (std::uint32_t round = 1;; ++round) {
    wait_for(announced_.round, round, spins_, workers_asleep_, [] {});
    if (announced_.function == nullptr) return;
    work(thread);
    done.exchange(round);
    if (caller_asleep_.load() > 0) done.notify_one();
  }
}

}  // namespace surefit
