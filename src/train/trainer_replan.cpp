// SPDX-License-Identifier: Apache-2.0
// The plan that changes while training goes on, because memory gets scarce or comes back.
#include <malloc.h>
#include <utility>

#include "base/check.hpp"
#include "base/units.hpp"
#include "train/trainer.hpp"

namespace surefit {

// Between two steps: nothing in the arena is needed any more, what persists lies elsewhere.
void Trainer::mind_memory() {
  if (const auto change = watch_->look(holding_)) change_plan(*change);
}

void Trainer::change_plan(const BudgetChange& change) {
  const double started = watch_->now_s();
  const std::uint64_t before = holding_.bytes;
  // First of all, so that its pages are free while the search goes on.
  train_executable_.reset();
  validation_executable_.reset();
  arena_.reset();
  spill_.reset();
  try {
    bool bound = change.wanted >= holding_.floor && rebind(change.wanted);
    // Not so far down; but the floor itself may do.
    if (!bound && (holding_.floor <= change.most || wait_for_memory()))
      bound = rebind(holding_.floor);
    if (!bound) {
      interrupt(fmt::format("too little memory: {} leaves {}, the smallest plan needs {}",
                            watch_->limiter(), format_bytes(watch_->left_bytes()),
                            format_bytes(holding_.floor)));
      return;
    }
  } catch (const SystemError& error) {  // no room on disk to spill to, say
    interrupt(fmt::format("no smaller plan: {}", error.what()));
    return;
  }
  watch_->changed(watch_->now_s() - started, change.grows);
  call(&Callback::on_plan_change, describe_change(before, change.grows));
}

bool Trainer::rebind(std::uint64_t budget) {
  MemoryRequest request =
      memory_request(options_, train_program_.graph(), train_feed_.batch(), pool_.threads());
  request.budget = budget;
  request.explain = false;
  if (train_feed_.reader().planned_bytes() > budget / 4) train_feed_.reader().drop_cache();
  enter_residents(request, model_.parameters.slot_bytes());
  try {
    MemoryPlan found = plan(request);
    ::malloc_trim(0);  // what the search left behind is not in the ledger
    bind(std::move(found));
    return true;
  } catch (const MemoryRefused& refused) {
    holding_.floor = refused.floor();
    return false;
  }
}

// Whatever comes of it, the run can go on from here.
bool Trainer::wait_for_memory() {
  checkpoints_->save_now(*this, pool_);
  checkpoints_->commit(false);
  const std::uint64_t left = watch_->left_bytes();
  warn(fmt::format("memory is scarce: {} leaves {}{}, the smallest plan needs {}; waiting",
                   watch_->limiter(), format_bytes(left),
                   left > holding_.floor ? ", soon less" : "", format_bytes(holding_.floor)));
  return watch_->wait_for(holding_.floor);
}

std::string Trainer::describe_change(std::uint64_t before, bool grows) const {
  const std::string speed = report_.slowdown > 1.005
                                ? fmt::format("about {:.0f} % slower than with all it wants",
                                              (report_.slowdown - 1) * 100)
                                : "at full speed";
  const bool same = holding_.bytes == before;  // it only waited
  return fmt::format("memory is {} ({} leaves {}): now {}{}, same bits, {}",
                     grows  ? "back"
                     : same ? "enough again"
                            : "getting scarce",
                     watch_->limiter(), format_bytes(watch_->left_bytes()),
                     format_bytes(holding_.bytes),
                     same ? "" : " instead of " + format_bytes(before), speed);
}

}  // namespace surefit
