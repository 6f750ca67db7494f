// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/thread_pool.hpp"
#include "data/node.hpp"

namespace surefit::data {

// Runs `task(index, worker)` over the team, or alone.
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
  team->pool->parallel_for(count, [&](std::size_t i, int thread) {
    task(i, (*team->workers)[static_cast<std::size_t>(thread)]);
  });
}

}  // namespace surefit::data
