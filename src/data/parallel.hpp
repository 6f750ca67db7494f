// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <exception>
#include <mutex>

#include "base/clock.hpp"
#include "base/thread_pool.hpp"
#include "data/node.hpp"

namespace surefit::data {

// Runs `task(index, worker)` over the team. With fewer workers than threads the others stay free.
template <typename Task>
void run_team(Team& team, std::size_t count, const Task& task) {
  std::vector<Worker>& workers = *team.workers;
  if (workers.size() >= static_cast<std::size_t>(team.pool->threads())) {
    team.pool->parallel_for(count, [&](std::size_t i, int thread) {
      Worker& worker = workers[static_cast<std::size_t>(thread)];
      task(i, worker);
      worker.set_busy_until(monotonic_seconds());
    });
    return;
  }
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  std::size_t failed = count;
  team.pool->parallel_for(workers.size(), [&](std::size_t lane, int) {
    for (std::size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      try {
        task(i, workers[lane]);
        workers[lane].set_busy_until(monotonic_seconds());
      } catch (...) {  // of several, that of the lowest index is reported, as by the pool itself
        const std::lock_guard lock(mutex);
        if (i < failed) {
          failed = i;
          failure = std::current_exception();
        }
      }
    }
  });
  if (failure) std::rethrow_exception(failure);
}

// Runs `task(index, worker)` over the worker's team, or alone.
template <typename Task>
void for_each(std::size_t count, Worker& worker, const Task& task) {
  Team* team = worker.team();
  if (team == nullptr) {
    for (std::size_t i = 0; i < count; ++i) task(i, worker);
    return;
  }
  struct Alone {
    explicit Alone(Worker& w) : worker(w), team(w.team()) { worker.set_team(nullptr); }
    ~Alone() { worker.set_team(team); }
    Worker& worker;
    Team* team;
  } alone(worker);
  run_team(*team, count, task);
}

}  // namespace surefit::data
