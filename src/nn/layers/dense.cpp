// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/dense.hpp"

#include "base/check.hpp"
#include "nn/layers/common.hpp"

namespace surefit {
namespace {

class DenseImpl final : public LayerImpl {
 public:
  explicit DenseImpl(const Dense& spec) : spec_(spec) {
    if (spec.units < 1)
      throw ConfigError(fmt::format("[Dense] units; expected at least 1; got {}", spec.units));
    check_activation(spec.activation);
    check_regularizer(spec.kernel_regularizer);
    check_regularizer(spec.bias_regularizer);
    require_absent("activity_regularizer", spec.activity_regularizer);
    check_constraint(spec.kernel_constraint);
    check_constraint(spec.bias_constraint);
  }

  Shape infer(std::span<const Shape> inputs) const override {
    require_inputs(inputs, 1, 1, "a row of features (put a Flatten or a pooling layer before)");
    return Shape{spec_.units};
  }

  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const ValueType input = builder.type(inputs[0]);
    std::vector<ValueId> operands = {inputs[0]};
    operands.push_back(builder.parameter(
        {.name = "kernel",
         .shape = Shape{static_cast<std::int64_t>(input.shape.count()), spec_.units},
         .initializer = spec_.kernel_initializer,
         .packing = dense_kernel_packing(input, spec_.units),
         .regularizer = spec_.kernel_regularizer,
         .constraint = spec_.kernel_constraint}));
    if (spec_.use_bias) {
      operands.push_back(builder.parameter({.name = "bias",
                                            .shape = Shape{spec_.units},
                                            .initializer = spec_.bias_initializer,
                                            .regularizer = spec_.bias_regularizer,
                                            .constraint = spec_.bias_constraint}));
    }
    return emit_activation(
        builder, spec_.activation,
        builder.emit1(make_dense_op(spec_.units, spec_.use_bias), std::move(operands)));
  }

 private:
  Dense spec_;
};

}  // namespace

LayerPtr make_layer(const Dense& spec) {
  return std::make_shared<DenseImpl>(spec);
}

}  // namespace surefit
