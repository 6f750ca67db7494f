// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizers/update.hpp"

namespace surefit {

OptimizerPtr make_optimizer(const RMSprop& spec) {
  check_share("[RMSprop] rho", spec.rho);
  if (!(spec.momentum >= 0 && spec.momentum <= 1))
    throw ConfigError(fmt::format("[RMSprop] momentum; expected 0 to 1; got {}", spec.momentum));
  UpdateRule rule{.kind = "rmsprop"};
  rule.slots.reserve(3);
  rule.slots.emplace_back("velocity");
  if (spec.momentum > 0) rule.slots.emplace_back("momentum");
  if (spec.centered) rule.slots.emplace_back("average_gradient");
  rule.run = [spec](const UpdateRange& range) {
    auto args = update_args<kernels::RmspropArgs>(range);
    args.square = range.slots[0];
    args.momentum_buffer = spec.momentum > 0 ? range.slots[1] : nullptr;
    args.mean = spec.centered ? range.slots[spec.momentum > 0 ? 2 : 1] : nullptr;
    args.rho = static_cast<float>(spec.rho);
    args.momentum = static_cast<float>(spec.momentum);
    args.epsilon = static_cast<float>(spec.epsilon);
    kernels::table().optimizers.rmsprop(args);
  };
  return make_optimizer(rule, options_of(spec));
}

}  // namespace surefit
