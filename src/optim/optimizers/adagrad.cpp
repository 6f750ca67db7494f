// SPDX-License-Identifier: Apache-2.0
// Adagrad and Adadelta.
#include <algorithm>

#include "optim/optimizers/update.hpp"

namespace surefit {

OptimizerPtr make_optimizer(const Adagrad& spec) {
  if (!(spec.initial_accumulator_value >= 0)) {
    throw ConfigError(
        fmt::format("[Adagrad] initial_accumulator_value; expected at least 0; got {}",
                    spec.initial_accumulator_value));
  }
  UpdateRule rule{.kind = "adagrad", .slots = {"accumulator"}};
  rule.run = [start = static_cast<float>(spec.initial_accumulator_value),
              epsilon = static_cast<float>(spec.epsilon)](const UpdateRange& range) {
    // Slots are zero before the first step.
    if (range.step == 1) std::fill_n(range.slots[0], range.count, start);
    auto args = update_args<kernels::AdagradArgs>(range);
    args.accumulator = range.slots[0];
    args.epsilon = epsilon;
    kernels::table().optimizers.adagrad(args);
  };
  return make_optimizer(rule, options_of(spec));
}

OptimizerPtr make_optimizer(const Adadelta& spec) {
  check_share("[Adadelta] rho", spec.rho);
  UpdateRule rule{.kind = "adadelta", .slots = {"accumulated_grad", "accumulated_delta_var"}};
  rule.run = [spec](const UpdateRange& range) {
    auto args = update_args<kernels::AdadeltaArgs>(range);
    args.square_gradient = range.slots[0];
    args.square_delta = range.slots[1];
    args.rho = static_cast<float>(spec.rho);
    args.epsilon = static_cast<float>(spec.epsilon);
    kernels::table().optimizers.adadelta(args);
  };
  return make_optimizer(rule, options_of(spec));
}

}  // namespace surefit
