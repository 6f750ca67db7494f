// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/weighting.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "nn/ops/kernel.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

template <typename T>
void multiply(const Task& task, std::size_t count, std::int64_t sample, T factor) {
  const T* from = task.inputs[0].at<T>(sample);
  T* to = task.outputs[0].at<T>(sample);
  for (std::size_t i = 0; i < count; ++i) to[i] = from[i] * factor;
}

// Factor: (task, sample) -> number.
template <typename Factor>
std::shared_ptr<const Op> make_product_op(std::string_view kind, const ValueType& type,
                                          Factor factor) {
  const auto run = [count = type.stored_count(), dtype = type.dtype, factor](const Task& task) {
    for (std::int64_t n = task.begin; n < task.end; ++n) {
      if (dtype == DType::kFloat64) {
        multiply<double>(task, count, n, factor(task, n));
      } else {
        multiply<float>(task, count, n, static_cast<float>(factor(task, n)));
      }
    }
  };
  return make_sample_op({.kind = kind, .outputs = {type}, .in_place_input = 0, .run = run});
}

double weight_of(const ClassWeights& weights, std::int64_t label) {
  for (const auto& [known, weight] : weights) {
    if (known == label) return weight;
  }
  return 1;
}

}  // namespace

std::shared_ptr<const Op> make_weigh_op(const ValueType& type) {
  return make_product_op("weigh", type, [](const Task& task, std::int64_t n) {
    return static_cast<double>(*task.inputs[1].at(n));
  });
}

std::shared_ptr<const Op> make_scale_op(const ValueType& type, double factor) {
  return make_product_op("scale", type, [factor](const Task&, std::int64_t) { return factor; });
}

std::shared_ptr<const Op> make_weighted_sum_op(std::vector<double> weights) {
  ValueType type;
  type.dtype = DType::kFloat64;
  const auto run = [weights = std::move(weights)](const Task& task) {
    for (std::int64_t n = task.begin; n < task.end; ++n) {
      double sum = 0;
      for (std::size_t i = 0; i < weights.size(); ++i)
        sum += weights[i] * *task.inputs[i].at<double>(n);
      *task.outputs[0].at<double>(n) = sum;
    }
  };
  return make_sample_op({.kind = "weighted_sum", .outputs = {type}, .run = run});
}

std::shared_ptr<const Op> make_class_weight_op(const ValueType& labels, ClassWeights weights) {
  const bool whole = labels.dtype == DType::kInt32;
  if (whole ? labels.shape.count() != 1 : labels.shape.rank() != 1) {
    throw ConfigError(
        fmt::format("[class_weight] expected one class per sample; got labels of shape {}",
                    labels.shape.to_string()));
  }
  ValueType type;
  const auto run = [count = labels.stored_count(), whole, weights](const Task& task) {
    for (std::int64_t n = task.begin; n < task.end; ++n) {
      std::int64_t label = 0;
      if (whole) {
        label = *task.inputs[0].at<std::int32_t>(n);
      } else if (count == 1) {
        label = *task.inputs[0].at(n) >= 0.5f ? 1 : 0;
      } else {
        const float* scores = task.inputs[0].at(n);
        label = std::max_element(scores, scores + count) - scores;
      }
      *task.outputs[0].at(n) = static_cast<float>(weight_of(weights, label));
    }
  };
  return make_sample_op({.kind = "class_weight", .outputs = {type}, .run = run});
}

}  // namespace surefit
