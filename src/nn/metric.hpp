// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "surefit/metrics.hpp"

#include "graph/graph.hpp"
#include "nn/loss.hpp"

namespace surefit {

// A metric is a node with a few numbers per sample, and a state that sums them up in sample order.
class MetricImpl {
 public:
  virtual ~MetricImpl() = default;
  // Emits a node whose output is float32 of any fixed width per sample.
  virtual ValueId build(Graph& graph, ValueId prediction, ValueId labels,
                        const LabelSpec& spec) const = 0;
  virtual std::size_t state_size() const = 0;
  virtual void update(std::span<double> state, std::span<const float> sample) const = 0;
  virtual double result(std::span<const double> state) const = 0;
};

}  // namespace surefit
