// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"
#include "nn/layers/common.hpp"
#include "nn/ops/batch_norm.hpp"

namespace surefit {
namespace {

class BatchNormalizationImpl final : public LayerImpl {
 public:
  explicit BatchNormalizationImpl(const BatchNormalization& spec) : spec_(spec) {
    if (spec.epsilon <= 0) throw ConfigError("[BatchNormalization] epsilon must be positive");
    if (spec.momentum < 0 || spec.momentum > 1)
      throw ConfigError("[BatchNormalization] momentum must be in [0, 1]");
    if (spec.renorm)
      throw ConfigError("[BatchNormalization] renorm; expected false, other is not supported yet");
    check_regularizer(spec.beta_regularizer);
    check_regularizer(spec.gamma_regularizer);
    check_constraint(spec.beta_constraint);
    check_constraint(spec.gamma_constraint);
  }

  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || (inputs[0].rank() != 3 && inputs[0].rank() != 1)) {
      throw ConfigError("expected one picture (height, width, channels) or one row");
    }
    const int last = static_cast<int>(inputs[0].rank());  // axes count the batch, as in Keras
    if (spec_.axis != -1 && spec_.axis != last) {
      throw ConfigError(
          fmt::format("axis; expected the channels, -1 or {}; got {}", last, spec_.axis));
    }
    return inputs[0];
  }

  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    const bool row = builder.type(inputs[0]).shape.rank() == 1;
    const ValueId picture = as_picture(builder, inputs[0]);
    const Shape shape = builder.type(picture).shape;
    const std::int64_t channels = shape[2], pixels = shape[0] * shape[1];
    const auto parameter = [&](const char* name, const Object& initializer, bool trainable,
                               const std::optional<Object>& regularizer = {},
                               const std::optional<Object>& constraint = {}) {
      return builder.parameter({.name = name,
                                .shape = Shape{channels},
                                .initializer = initializer,
                                .trainable = trainable,
                                .regularizer = regularizer,
                                .constraint = constraint});
    };
    std::vector<ValueId> affine;
    if (spec_.scale)
      affine.push_back(parameter("gamma", spec_.gamma_initializer, true, spec_.gamma_regularizer,
                                 spec_.gamma_constraint));
    if (spec_.center)
      affine.push_back(parameter("beta", spec_.beta_initializer, true, spec_.beta_regularizer,
                                 spec_.beta_constraint));
    const ValueId moving_mean = parameter("moving_mean", spec_.moving_mean_initializer, false);
    const ValueId moving_variance =
        parameter("moving_variance", spec_.moving_variance_initializer, false);

    // A frozen layer normalises by its running statistics, as in Keras.
    const bool batch = builder.training() && builder.trainable();
    const std::int64_t ghost = batch ? builder.ghost_batch() : 0;
    std::vector<ValueId> statistics;
    if (batch) {
      const ValueId partials = builder.emit1(make_bn_partials_op(), {picture});
      const ValueId sum = builder.emit1(make_bn_sum_op(), {partials});
      statistics =
          ghost > 0
              ? builder.emit(make_bn_ghost_statistics_op(channels, pixels, spec_.epsilon, ghost),
                             {partials})
              : builder.emit(make_bn_statistics_op(channels, pixels, spec_.epsilon), {sum});
      // The running statistics are those of the whole batch in either case.
      builder.update(make_bn_update_op(channels, pixels, spec_.momentum),
                     {moving_mean, moving_variance, sum});
    } else {
      statistics =
          builder.emit(make_bn_moving_op(channels, spec_.epsilon), {moving_mean, moving_variance});
    }
    std::vector<ValueId> operands = {picture, statistics[0], statistics[1]};
    operands.insert(operands.end(), affine.begin(), affine.end());
    const ValueId y = builder.emit1(make_bn_apply_op({.scale = spec_.scale,
                                                      .center = spec_.center,
                                                      .batch_statistics = batch,
                                                      .ghost_batch = ghost}),
                                    operands);
    return row ? as_row(builder, y) : y;
  }

 private:
  BatchNormalization spec_;
};

}  // namespace

LayerPtr make_layer(const BatchNormalization& spec) {
  return std::make_shared<BatchNormalizationImpl>(spec);
}

}  // namespace surefit
