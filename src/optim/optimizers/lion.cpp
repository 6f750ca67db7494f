// SPDX-License-Identifier: Apache-2.0
#include "optim/optimizers/update.hpp"

namespace surefit {

OptimizerPtr make_optimizer(const Lion& spec) {
  if (!(spec.beta_1 > 0 && spec.beta_1 <= 1))
    throw ConfigError(
        fmt::format("[Lion] beta_1; expected above 0 and at most 1; got {}", spec.beta_1));
  check_share("[Lion] beta_2", spec.beta_2);
  UpdateRule rule{.kind = "lion", .slots = {"momentum"}};
  rule.run = [spec](const UpdateRange& range) {
    auto args = update_args<kernels::LionArgs>(range);
    args.m = range.slots[0];
    args.beta1 = static_cast<float>(spec.beta_1);
    args.beta2 = static_cast<float>(spec.beta_2);
    kernels::table().optimizers.lion(args);
  };
  return make_optimizer(rule, options_of(spec));
}

}  // namespace surefit
