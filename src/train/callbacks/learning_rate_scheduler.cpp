// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <fmt/format.h>

#include "surefit/callbacks.hpp"

namespace surefit {
namespace {

// Its only state is the learning rate, which checkpoints keep anyway.
class LearningRateSchedulerImpl final : public Callback {
 public:
  explicit LearningRateSchedulerImpl(const LearningRateScheduler& spec) : spec_(spec) {}

  void on_epoch_begin(TrainState& state) override {
    const double now = state.learning_rate();
    const double factor = state.epoch() >= spec_.start_from_epoch ? spec_.factor : 1;
    const double next = spec_.schedule ? spec_.schedule(state.epoch(), now) : now * factor;
    if (!std::isfinite(next) || next < 0) {
      throw ConfigError(fmt::format(
          "[LearningRateScheduler] epoch {}: expected a learning rate of at least 0; got {}",
          state.epoch() + 1, next));
    }
    state.set_learning_rate(next);
  }

 private:
  LearningRateScheduler spec_;
};

}  // namespace

CallbackPtr make_callback(const LearningRateScheduler& spec) {
  return std::make_shared<LearningRateSchedulerImpl>(spec);
}

}  // namespace surefit
