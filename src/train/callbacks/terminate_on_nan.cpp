// SPDX-License-Identifier: Apache-2.0
#include "surefit/callbacks.hpp"

namespace surefit {
namespace {

class TerminateOnNaNImpl final : public Callback {
 public:
  explicit TerminateOnNaNImpl(const TerminateOnNaN& spec) : spec_(spec) {}

  std::string_view state_name() const override { return TerminateOnNaN::kClass; }
  void visit_state(StateVisitor& visitor) override { visitor.field("rollbacks", done_); }
  void on_train_begin(TrainState&) override { done_ = 0; }

  OnBadLoss on_bad_loss(TrainState& state, const std::string&) override {
    // Rolling back puts back the count too, as it was then; this one is saved behind it.
    if (done_ >= spec_.rollbacks || !state.roll_back()) return OnBadLoss::kStop;
    ++done_;
    state.set_learning_rate(state.learning_rate() * spec_.factor);
    return OnBadLoss::kRollBack;
  }

 private:
  TerminateOnNaN spec_;
  std::int64_t done_ = 0;
};

}  // namespace

CallbackPtr make_callback(const TerminateOnNaN& spec) {
  return std::make_shared<TerminateOnNaNImpl>(spec);
}

}  // namespace surefit
