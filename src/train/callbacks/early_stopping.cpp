// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <fmt/format.h>

#include "train/callbacks/monitor.hpp"

namespace surefit {
namespace {

class EarlyStoppingImpl final : public Callback {
 public:
  explicit EarlyStoppingImpl(const EarlyStopping& spec)
      : spec_(spec), monitor_(spec.monitor, spec.mode, "EarlyStopping") {
    if (spec.patience < 0) {
      throw ConfigError(
          fmt::format("[EarlyStopping.patience] expected 0 or more; got {}", spec.patience));
    }
  }

  std::string_view state_name() const override { return EarlyStopping::kClass; }
  void visit_state(StateVisitor& visitor) override {
    visitor.field("best", best_);
    visitor.field("best_epoch", best_epoch_);
    visitor.field("wait", wait_);
  }
  bool keeps_weights() const override { return spec_.restore_best_weights; }

  void on_train_begin(TrainState& state) override {
    monitor_.check(state);
    best_ = monitor_.worst();
    best_epoch_ = -1;
    wait_ = 0;
  }

  void on_epoch_end(TrainState& state, const Logs& logs) override {
    if (state.epoch() < spec_.start_from_epoch) return;
    const double value = monitor_.value(logs);
    if (best_epoch_ < 0) remember(state);  // even the first of all NaN is something to go back to
    ++wait_;
    if (monitor_.better(value, best_, std::abs(spec_.min_delta))) {
      best_ = value;
      remember(state);
      if (!spec_.baseline || monitor_.better(value, *spec_.baseline, std::abs(spec_.min_delta)))
        wait_ = 0;
      return;
    }
    if (wait_ >= spec_.patience && state.epoch() > 0) {
      state.request_stop(fmt::format(
          "EarlyStopping: {} has not become better than {:.6g} of epoch {} for {} epoch{}",
          monitor_.name(), best_, best_epoch_ + 1, wait_, wait_ == 1 ? "" : "s"));
    }
  }

  void on_train_end(TrainState& state) override {
    if (spec_.restore_best_weights && best_epoch_ >= 0) state.restore_weights(*this);
  }

 private:
  void remember(TrainState& state) {
    best_epoch_ = state.epoch();
    if (spec_.restore_best_weights) state.keep_weights(*this);
  }

  EarlyStopping spec_;
  Monitor monitor_;
  double best_ = 0;
  std::int64_t best_epoch_ = -1, wait_ = 0;
};

}  // namespace

CallbackPtr make_callback(const EarlyStopping& spec) {
  return std::make_shared<EarlyStoppingImpl>(spec);
}

}  // namespace surefit
