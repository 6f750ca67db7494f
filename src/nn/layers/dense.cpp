// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/dense.hpp"

#include "base/check.hpp"
#include "nn/layers/convolution.hpp"

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
    if (inputs.size() != 1 || inputs[0].rank() == 0)
      throw ConfigError(fmt::format("expected one input, rows of features; got {}", inputs.size()));
    std::vector<std::int64_t> dims(inputs[0].dims().begin(), inputs[0].dims().end());
    dims.back() = spec_.units;
    return Shape(std::move(dims));
  }

  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const ValueType input = builder.type(inputs[0]);
    if (input.shape.rank() > 1) return build_rows(builder, inputs[0]);
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
        builder.emit(make_dense_op(spec_.units, spec_.use_bias), std::move(operands))[0]);
  }

 private:
  // Many rows of a sample share the weights: a convolution whose pixels are the rows.
  ValueId build_rows(LayerBuilder& builder, ValueId input) const {
    const Shape shape = builder.type(input).shape;
    const std::int64_t channels = shape[shape.rank() - 1];
    const auto rows = static_cast<std::int64_t>(shape.count()) / channels;
    const bool picture = shape.rank() == 3;
    if (!picture) input = seen_as(builder, input, Shape{1, rows, channels}, "rows");
    const kernels::ConvShape s =
        conv_shape(picture ? shape : Shape{1, rows, channels}, Conv2D{}, spec_.units, 1);
    const ConvAlgorithm algorithm =
        choose_algorithm(s, builder.type(input).layout, builder.convolutions());
    const ValueId kernel = builder.parameter({.name = "kernel",
                                              .shape = Shape{channels, spec_.units},
                                              .initializer = spec_.kernel_initializer,
                                              .packing = conv_kernel_packing(s, algorithm),
                                              .regularizer = spec_.kernel_regularizer,
                                              .constraint = spec_.kernel_constraint});
    const ValueId bias = bias_parameter(builder, spec_, spec_.units);
    const ValueId y = emit_activation(builder, spec_.activation,
                                      emit_conv(builder, s, algorithm, input, kernel, bias));
    return picture ? y : seen_as(builder, y, infer(std::span(&shape, 1)), "output");
  }
  static ValueId seen_as(LayerBuilder& builder, ValueId value, const Shape& shape,
                         const std::string& what) {
    const ValueId plain =
        builder.graph().in_layout(value, Layout::kPlain, builder.name(), Phase::kForward);
    ValueType type;
    type.shape = shape;
    return builder.graph().add_view(plain, type, builder.name() + "/" + what);
  }
  Dense spec_;
};

}  // namespace

LayerPtr make_layer(const Dense& spec) {
  return std::make_shared<DenseImpl>(spec);
}

}  // namespace surefit
