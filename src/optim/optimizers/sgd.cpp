// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "engine/kernels/table.hpp"
#include "optim/optimizer.hpp"
#include "optim/optimizers/update.hpp"

namespace surefit {
namespace {

class SgdUpdate final : public UpdateOp {
 public:
  explicit SgdUpdate(const SGD& spec) : UpdateOp(spec.momentum > 0 ? 1 : 0), spec_(spec) {}
  std::string_view kind() const override { return "sgd"; }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    kernels::SgdArgs args;
    args.momentum = static_cast<float>(spec_.momentum);
    args.nesterov = spec_.nesterov;
    return make(inputs, [args](const Task& task, std::int64_t begin, std::int64_t count) {
      kernels::SgdArgs own = args;
      own.weights = task.inputs[0].at() + begin;
      own.gradient = task.inputs[1].at() + begin;
      own.velocity = task.inputs.size() > 2 ? task.inputs[2].at() + begin : nullptr;
      own.count = count;
      own.lr = static_cast<float>(task.step->learning_rate);
      own.grad_scale = static_cast<float>(1 / task.step->loss_scale);
      kernels::table().optimizers.sgd(own);
    });
  }

 private:
  SGD spec_;
};

class SgdImpl final : public OptimizerImpl {
 public:
  explicit SgdImpl(const SGD& spec) : spec_(spec) {
    if (!(spec.learning_rate >= 0)) {
      throw ConfigError(
          fmt::format("[SGD] learning_rate; expected at least 0; got {}", spec.learning_rate));
    }
    if (!(spec.momentum >= 0 && spec.momentum <= 1)) {
      throw ConfigError(fmt::format("[SGD] momentum; expected 0 to 1; got {}", spec.momentum));
    }
  }
  double learning_rate() const override { return spec_.learning_rate; }
  std::vector<std::string> slots() const override {
    if (spec_.momentum == 0) return {};
    return {"momentum"};
  }
  std::shared_ptr<const Op> update_op() const override {
    return std::make_shared<SgdUpdate>(spec_);
  }

 private:
  SGD spec_;
};

}  // namespace

OptimizerPtr make_optimizer(const SGD& spec) {
  return std::make_shared<SgdImpl>(spec);
}

}  // namespace surefit
