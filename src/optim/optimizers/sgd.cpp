// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizers/update.hpp"

namespace surefit {

OptimizerPtr make_optimizer(const SGD& spec) {
  if (!(spec.momentum >= 0 && spec.momentum <= 1))
    throw ConfigError(fmt::format("[SGD] momentum; expected 0 to 1; got {}", spec.momentum));
  UpdateRule rule{.kind = "sgd"};
  if (spec.momentum > 0) rule.slots = {"momentum"};
  rule.as_sgd = [momentum = static_cast<float>(spec.momentum),
                 nesterov = spec.nesterov](const UpdateRange& range) {
    auto args = update_args<kernels::SgdArgs>(range);
    args.velocity = range.slots[0];
    args.momentum = momentum;
    args.nesterov = nesterov;
    return args;
  };
  rule.run = [args_of = rule.as_sgd](const UpdateRange& range) {
    kernels::table().optimizers.sgd(args_of(range));
  };
  return make_optimizer(rule, options_of(spec));
}

}  // namespace surefit
