// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "surefit/losses.hpp"

#include "graph/graph.hpp"

namespace surefit {

// What a loss needs as labels for one sample of a prediction.
struct LabelSpec {
  Shape shape;
  DType dtype = DType::kFloat32;
  std::int64_t classes = 0;  // whole-number labels must lie in [0, classes); 0: any value
};

struct LossNodes {
  ValueId loss = kNone;      // float64, one per sample
  ValueId gradient = kNone;  // of the batch's mean loss with respect to `root`; only in training
  ValueId root = kNone;      // the value the backward pass starts from
};

class LossImpl {
 public:
  virtual ~LossImpl() = default;
  virtual LabelSpec labels(const Shape& prediction) const = 0;  // throws ConfigError
  virtual LossNodes build(Graph& graph, ValueId prediction, ValueId labels,
                          bool training) const = 0;
};

}  // namespace surefit
