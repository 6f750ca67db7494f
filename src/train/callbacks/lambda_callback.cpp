// SPDX-License-Identifier: Apache-2.0
#include "surefit/callbacks.hpp"

namespace surefit {
namespace {

class LambdaCallbackImpl final : public Callback {
 public:
  explicit LambdaCallbackImpl(const LambdaCallback& spec) : spec_(spec) {}
  void on_train_begin(TrainState& state) override { call(spec_.on_train_begin, state); }
  void on_epoch_begin(TrainState& state) override { call(spec_.on_epoch_begin, state); }
  void on_train_batch_end(TrainState& state, const Logs& logs) override {
    call(spec_.on_train_batch_end, state, logs);
  }
  void on_epoch_end(TrainState& state, const Logs& logs) override {
    call(spec_.on_epoch_end, state, logs);
  }
  void on_train_end(TrainState& state) override { call(spec_.on_train_end, state); }

 private:
  template <typename Function, typename... Args>
  static void call(const Function& function, Args&... args) {
    if (function) function(args...);
  }
  LambdaCallback spec_;
};

}  // namespace

CallbackPtr make_callback(const LambdaCallback& spec) {
  return std::make_shared<LambdaCallbackImpl>(spec);
}

}  // namespace surefit
