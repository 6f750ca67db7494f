// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/kernels/pool.hpp"
#include "graph/op.hpp"

namespace surefit {

// Max pooling with a byte per output that remembers the winner.
class MaxPoolOp final : public Op {
 public:
  MaxPoolOp(kernels::PoolShape shape, bool training) : shape_(shape), training_(training) {}
  const kernels::PoolShape& shape() const { return shape_; }
  bool training() const { return training_; }
  std::string_view kind() const override { return "max_pool"; }
  Layout preferred_layout(std::size_t, const ValueType&) const override { return Layout::kBlocked; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  OpTraits traits(std::span<const ValueType> inputs,
                  std::span<const ValueType> outputs) const override;
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs,
                               std::span<const ValueType> outputs, int threads) const override;
  void gradient(GradientBuilder& builder) const override;

 private:
  kernels::PoolShape shape_;
  bool training_;
};

std::shared_ptr<const Op> make_average_pool_op(const kernels::PoolShape& shape);
std::shared_ptr<const Op> make_global_average_pool_op();
// Outputs: the row of maxima and, in training, the pixel of each.
std::shared_ptr<const Op> make_global_max_pool_op(const Shape& picture, bool training);

// The winners of a max pool: a byte per pooled element.
ValueType argmax_type(const ValueType& pooled);

}  // namespace surefit
