// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/kernels/pool.hpp"
#include "graph/op.hpp"

namespace surefit {

// Max pooling with a byte per output that remembers the winner; with relu, of which neither the
// output nor the gradient then exists at the size of the input.
class MaxPoolOp final : public Op {
 public:
  MaxPoolOp(kernels::PoolShape shape, bool training, bool relu = false)
      : shape_(shape), training_(training), relu_(relu) {}
  const kernels::PoolShape& shape() const { return shape_; }
  bool training() const { return training_; }
  bool relu() const { return relu_; }
  // The same behind a relu.
  std::shared_ptr<const Op> with_relu() const {
    return std::make_shared<MaxPoolOp>(shape_, training_, true);
  }
  std::string_view kind() const override { return relu_ ? "relu_max_pool" : "max_pool"; }
  Layout preferred_layout(std::size_t, const ValueType&) const override { return Layout::kBlocked; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override;
  OpTraits traits(std::span<const ValueType> inputs,
                  std::span<const ValueType> outputs) const override;
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs,
                               std::span<const ValueType> outputs, int threads) const override;
  void gradient(GradientBuilder& builder) const override;

 private:
  kernels::PoolShape shape_;
  bool training_, relu_;
};

std::shared_ptr<const Op> make_average_pool_op(const kernels::PoolShape& shape);
std::shared_ptr<const Op> make_global_average_pool_op();
// Outputs: the row of maxima and, in training, the pixel of each.
std::shared_ptr<const Op> make_global_max_pool_op(const Shape& picture, bool training);

// The winners of a max pool: a byte per pooled element.
ValueType argmax_type(const ValueType& pooled);

}  // namespace surefit
