// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>

#include "train/callbacks/monitor.hpp"

namespace surefit {
namespace {

class ReduceLROnPlateauImpl final : public Callback {
 public:
  explicit ReduceLROnPlateauImpl(const ReduceLROnPlateau& spec)
      : spec_(spec), monitor_(spec.monitor, spec.mode, "ReduceLROnPlateau") {
    if (!(spec.factor > 0 && spec.factor < 1)) {
      throw ConfigError(fmt::format(
          "[ReduceLROnPlateau.factor] expected above 0 and below 1; got {}", spec.factor));
    }
  }

  std::string_view state_name() const override { return ReduceLROnPlateau::kClass; }
  void visit_state(StateVisitor& visitor) override {
    visitor.field("best", best_);
    visitor.field("wait", wait_);
    visitor.field("cooldown", cooldown_);
  }

  void on_train_begin(TrainState& state) override {
    monitor_.check(state);
    best_ = monitor_.worst();
    wait_ = cooldown_ = 0;
  }

  void on_epoch_end(TrainState& state, const Logs& logs) override {
    const double value = monitor_.value(logs);
    if (cooldown_ > 0) {
      --cooldown_;
      wait_ = 0;
    }
    if (monitor_.better(value, best_, spec_.min_delta)) {
      best_ = value;
      wait_ = 0;
    } else if (cooldown_ == 0 && ++wait_ >= spec_.patience) {
      const double rate = state.learning_rate();
      if (rate <= spec_.min_lr) return;
      state.set_learning_rate(std::max(rate * spec_.factor, spec_.min_lr));
      cooldown_ = spec_.cooldown;
      wait_ = 0;
    }
  }

 private:
  ReduceLROnPlateau spec_;
  Monitor monitor_;
  double best_ = 0;
  std::int64_t wait_ = 0, cooldown_ = 0;
};

}  // namespace

CallbackPtr make_callback(const ReduceLROnPlateau& spec) {
  return std::make_shared<ReduceLROnPlateauImpl>(spec);
}

}  // namespace surefit
