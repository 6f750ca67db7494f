// SPDX-License-Identifier: Apache-2.0
#include "nn/regularizer.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "nn/layer.hpp"
#include "nn/ops/kernel.hpp"

namespace surefit {
namespace {

// A node without a batch, made of one function.
class BatchFreeOp final : public Op {
 public:
  using Run = std::function<void(const Task&, std::size_t count)>;
  BatchFreeOp(std::string_view kind, std::optional<ValueType> output, Run run)
      : kind_(kind), output_(std::move(output)), run_(std::move(run)) {}
  std::string_view kind() const override { return kind_; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {output_.value_or(inputs[0])};
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kBatchFree;
    traits.flops_per_step = static_cast<double>(inputs[0].stored_count()) * 3;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own", [count = inputs[0].stored_count(), run = run_](const Task& task) {
      run(task, count);
    });
  }

 private:
  std::string_view kind_;
  std::optional<ValueType> output_;
  Run run_;
};

class PenalisedLossOp final : public Op {
 public:
  std::string_view kind() const override { return "penalised_loss"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {inputs[0]};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    return {};
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own", [](const Task& task) {
      double sum = 0;
      for (std::size_t i = 1; i < task.inputs.size(); ++i) sum += *task.inputs[i].at<double>();
      for (std::int64_t n = task.begin; n < task.end; ++n)
        *task.outputs[0].at<double>(n) = *task.inputs[0].at<double>(n) + sum;
    });
  }
};

// Which norm each stored element belongs to: the axes that are summed over share one. Found by
// packing the numbers of the norms in place of weights.
std::vector<std::int32_t> norm_index(const Shape& shape, const std::vector<bool>& summed,
                                     const Packing* packing, std::size_t& norms) {
  std::vector<float> numbers(shape.count());
  norms = 1;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    if (!summed[axis]) norms *= static_cast<std::size_t>(shape[axis]);
  }
  if (norms >= 1 << 24) throw ConfigError("constraint; too many norms");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::size_t rest = i, number = 0, step = 1;
    for (std::size_t axis = shape.rank(); axis-- > 0;) {
      const auto extent = static_cast<std::size_t>(shape[axis]);
      if (!summed[axis]) {
        number += rest % extent * step;
        step *= extent;
      }
      rest /= extent;
    }
    numbers[i] = static_cast<float>(number);
  }
  std::vector<float> stored(packing != nullptr ? packing->stored_count() : numbers.size());
  if (packing != nullptr) {
    packing->pack(numbers.data(), stored.data());
  } else {
    stored = numbers;
  }
  return {stored.begin(),
          stored.end()};  // padding counts to norm 0, where its zeros change nothing
}

std::vector<bool> summed_axes(const Object& constraint, const Shape& shape) {
  std::vector<bool> summed(shape.rank(), false);
  Axes axes = {0};
  if (const ConfigValue* given = find(constraint.config, "axis"))
    from_config(*given, "constraint.axis", axes);
  for (const std::int64_t axis : axes.values) {
    const std::int64_t at = axis < 0 ? axis + static_cast<std::int64_t>(shape.rank()) : axis;
    if (at < 0 || at >= static_cast<std::int64_t>(shape.rank())) {
      throw ConfigError(
          fmt::format("constraint axis; expected an axis of {}; got {}", shape.to_string(), axis));
    }
    summed[static_cast<std::size_t>(at)] = true;
  }
  return summed;
}

}  // namespace

Penalty penalty_of(const Object& regularizer) {
  const std::string& name = regularizer.class_name;
  Penalty penalty;
  if (name == "L1" || name == "l1") {
    penalty.l1 = regularizer.number("l1", 0.01);
  } else if (name == "L2" || name == "l2") {
    penalty.l2 = regularizer.number("l2", 0.01);
  } else if (name == "L1L2" || name == "l1_l2") {
    penalty = {regularizer.number("l1", 0), regularizer.number("l2", 0)};
  } else {
    throw ConfigError(
        fmt::format("[regularizer] unknown class '{}'; expected one of: L1, L2, L1L2", name));
  }
  if (!(penalty.l1 >= 0 && penalty.l2 >= 0))
    throw ConfigError("[regularizer] expected factors of at least 0");
  return penalty;
}

std::shared_ptr<const Op> make_penalty_gradient_op(const Penalty& penalty) {
  return std::make_shared<BatchFreeOp>(
      "penalty_gradient", std::nullopt, [penalty](const Task& task, std::size_t count) {
        const auto twice = static_cast<float>(2 * penalty.l2 * task.step->loss_scale);
        const auto sign = static_cast<float>(penalty.l1 * task.step->loss_scale);
        const float* gradient = task.inputs[0].at();
        const float* w = task.inputs[1].at();
        float* to = task.outputs[0].at();
        for (std::size_t i = 0; i < count; ++i)
          to[i] = gradient[i] + w[i] * twice + (w[i] > 0 ? sign : w[i] < 0 ? -sign : 0.0f);
      });
}

std::shared_ptr<const Op> make_penalty_op(const Penalty& penalty) {
  return std::make_shared<BatchFreeOp>(
      "penalty", vector_type(1, DType::kFloat64), [penalty](const Task& task, std::size_t count) {
        const float* w = task.inputs[0].at();
        double sum = 0, squares = 0;
        for (std::size_t i = 0; i < count; ++i) {
          const auto value = static_cast<double>(w[i]);
          sum += std::abs(value);
          squares += value * value;
        }
        *task.outputs[0].at<double>() = penalty.l1 * sum + penalty.l2 * squares;
      });
}

std::shared_ptr<const Op> make_penalised_loss_op() {
  return std::make_shared<PenalisedLossOp>();
}

std::function<void(float*)> make_constraint(const Object& constraint, const Shape& shape,
                                            const Packing* packing) {
  const std::string& name = constraint.class_name;
  const std::size_t count = packing != nullptr ? packing->stored_count() : shape.count();
  if (name == "NonNeg" || name == "non_neg") {
    return [count](float* w) {
      for (std::size_t i = 0; i < count; ++i) w[i] = w[i] >= 0 ? w[i] : 0;
    };
  }
  const bool max_norm = name == "MaxNorm" || name == "max_norm";
  if (!max_norm && name != "UnitNorm" && name != "unit_norm") {
    throw ConfigError(fmt::format(
        "[constraint] unknown class '{}'; expected one of: MaxNorm, UnitNorm, NonNeg", name));
  }
  const double limit = constraint.number("max_value", 2);
  if (!(limit > 0))
    throw ConfigError(fmt::format("[MaxNorm] max_value; expected above 0; got {}", limit));
  std::size_t norms = 0;
  auto index = norm_index(shape, summed_axes(constraint, shape), packing, norms);
  // Scratch lives with the node: the function runs on one thread at a time.
  const auto factors = std::make_shared<std::vector<double>>(norms);
  return [index = std::move(index), factors, limit, max_norm](float* w) {
    constexpr double kEpsilon = 1e-7;  // Keras's
    std::fill(factors->begin(), factors->end(), 0.0);
    for (std::size_t i = 0; i < index.size(); ++i)
      (*factors)[static_cast<std::size_t>(index[i])] +=
          static_cast<double>(w[i]) * static_cast<double>(w[i]);
    for (double& factor : *factors) {
      const double norm = std::sqrt(factor);
      factor = (max_norm ? std::min(norm, limit) : 1.0) / (kEpsilon + norm);
    }
    for (std::size_t i = 0; i < index.size(); ++i)
      w[i] = static_cast<float>(static_cast<double>(w[i]) *
                                (*factors)[static_cast<std::size_t>(index[i])]);
  };
}

}  // namespace surefit
