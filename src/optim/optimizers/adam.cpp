// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "engine/kernels/table.hpp"
#include "optim/optimizer.hpp"
#include "optim/optimizers/update.hpp"

namespace surefit {
namespace {

class AdamUpdate final : public UpdateOp {
 public:
  explicit AdamUpdate(const Adam& spec) : UpdateOp(spec.amsgrad ? 3 : 2), spec_(spec) {}
  std::string_view kind() const override { return "adam"; }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    kernels::AdamArgs args;
    args.beta1 = static_cast<float>(spec_.beta_1);
    args.beta2 = static_cast<float>(spec_.beta_2);
    args.epsilon = static_cast<float>(spec_.epsilon);
    args.weight_decay = static_cast<float>(spec_.weight_decay.value_or(0));
    return make(
        inputs, [args, spec = spec_](const Task& task, std::int64_t begin, std::int64_t count) {
          kernels::AdamArgs own = args;
          own.weights = task.inputs[0].at() + begin;
          own.gradient = task.inputs[1].at() + begin;
          own.m = task.inputs[2].at() + begin;
          own.v = task.inputs[3].at() + begin;
          own.v_max = task.inputs.size() > 4 ? task.inputs[4].at() + begin : nullptr;
          own.count = count;
          own.lr = static_cast<float>(task.step->learning_rate);
          own.alpha = kernels::adam_alpha(task.step->learning_rate, spec.beta_1, spec.beta_2,
                                          static_cast<std::int64_t>(task.step->step) + 1);
          own.grad_scale = static_cast<float>(1 / task.step->loss_scale);
          kernels::table().optimizers.adam(own);
        });
  }

 private:
  Adam spec_;
};

class AdamImpl final : public OptimizerImpl {
 public:
  explicit AdamImpl(const Adam& spec) : spec_(spec) {
    if (!(spec.learning_rate >= 0)) {
      throw ConfigError(
          fmt::format("[Adam] learning_rate; expected at least 0; got {}", spec.learning_rate));
    }
    if (!(spec.beta_1 >= 0 && spec.beta_1 < 1 && spec.beta_2 >= 0 && spec.beta_2 < 1)) {
      throw ConfigError(
          fmt::format("[Adam] beta_1 and beta_2; expected at least 0 and below 1; got {} and {}",
                      spec.beta_1, spec.beta_2));
    }
  }
  double learning_rate() const override { return spec_.learning_rate; }
  std::vector<std::string> slots() const override {
    if (spec_.amsgrad) return {"momentum", "velocity", "velocity_hat"};
    return {"momentum", "velocity"};
  }
  std::shared_ptr<const Op> update_op() const override {
    return std::make_shared<AdamUpdate>(spec_);
  }

 private:
  Adam spec_;
};

}  // namespace

OptimizerPtr make_optimizer(const Adam& spec) {
  return std::make_shared<AdamImpl>(spec);
}
OptimizerPtr make_optimizer(const AdamW& spec) {
  return make_optimizer(Adam{.learning_rate = spec.learning_rate,
                             .beta_1 = spec.beta_1,
                             .beta_2 = spec.beta_2,
                             .epsilon = spec.epsilon,
                             .amsgrad = spec.amsgrad,
                             .weight_decay = spec.weight_decay});
}

}  // namespace surefit
