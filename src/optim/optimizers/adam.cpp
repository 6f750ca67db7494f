// SPDX-License-Identifier: Apache-2.0
// Adam, AdamW and Nadam.
#include "optim/optimizers/update.hpp"

namespace surefit {
namespace {

template <typename Spec>
void check_moments(const Spec& spec) {
  check_share(fmt::format("[{}] beta_1", Spec::kClass), spec.beta_1);
  check_share(fmt::format("[{}] beta_2", Spec::kClass), spec.beta_2);
}

template <typename Args, typename Spec>
Args moment_args(const UpdateRange& range, const Spec& spec) {
  Args args = update_args<Args>(range);
  args.m = range.slots[0];
  args.v = range.slots[1];
  args.beta1 = static_cast<float>(spec.beta_1);
  args.beta2 = static_cast<float>(spec.beta_2);
  args.epsilon = static_cast<float>(spec.epsilon);
  return args;
}

template <typename Spec>
OptimizerPtr make_adam(const Spec& spec) {
  check_moments(spec);
  UpdateRule rule{.kind = "adam", .slots = {"momentum", "velocity"}};
  if (spec.amsgrad) rule.slots.emplace_back("velocity_hat");
  const auto args_of = [spec](const UpdateRange& range) {
    auto args = moment_args<kernels::AdamArgs>(range, spec);
    args.v_max = range.slots[2];
    args.alpha = kernels::adam_alpha(range.learning_rate, spec.beta_1, spec.beta_2, range.step);
    return args;
  };
  rule.run = [args_of](const UpdateRange& range) {
    kernels::table().optimizers.adam(args_of(range));
  };
  if (!spec.amsgrad) rule.as_adam = args_of;
  return make_optimizer(rule, options_of(spec));
}

}  // namespace

OptimizerPtr make_optimizer(const Adam& spec) {
  return make_adam(spec);
}
OptimizerPtr make_optimizer(const AdamW& spec) {
  return make_adam(spec);
}

OptimizerPtr make_optimizer(const Nadam& spec) {
  check_moments(spec);
  UpdateRule rule{.kind = "nadam", .slots = {"momentum", "velocity"}};
  rule.run = [spec](const UpdateRange& range) {
    auto args = moment_args<kernels::NadamArgs>(range, spec);
    args.terms = kernels::nadam_terms(spec.beta_1, spec.beta_2, range.step);
    kernels::table().optimizers.nadam(args);
  };
  return make_optimizer(rule, options_of(spec));
}

}  // namespace surefit
