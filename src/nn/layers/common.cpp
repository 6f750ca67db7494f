// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/common.hpp"

#include "base/check.hpp"
#include "nn/ops/activation.hpp"
#include "nn/ops/softmax.hpp"
#include "nn/regularizer.hpp"

namespace surefit {

void check_activation(const std::string& name) {
  activation_by_name(name);
}

ValueId emit_activation(LayerBuilder& builder, const std::string& name, ValueId input) {
  const std::optional<ActivationSpec> spec = activation_by_name(name);
  if (!spec) return builder.emit1(std::make_shared<SoftmaxOp>(), {input});
  if (spec->kind == kernels::Activation::kLinear) return input;
  return builder.emit1(std::make_shared<ActivationOp>(*spec), {input});
}

void check_sides(std::string_view where, const Sides& sides) {
  for (const int side : {sides.top, sides.bottom, sides.left, sides.right}) {
    if (side >= 0 && side <= 1 << 20) continue;
    throw ConfigError(fmt::format("{}; expected 0 or more at every side; got {}", where, side));
  }
}

RandomKey random_key(const LayerBuilder& builder, const std::optional<std::int64_t>& seed) {
  RandomKey key;
  if (seed) key.seed = static_cast<std::uint64_t>(*seed);
  key.layer = builder.layer_id();
  return key;
}

void require_channels_last(const std::string& data_format) {
  if (data_format != "channels_last") {
    throw ConfigError(fmt::format("data_format; expected 'channels_last'; got '{}'", data_format));
  }
}

void check_regularizer(const std::optional<Object>& value) {
  if (value) penalty_of(*value);
}

void check_constraint(const std::optional<Object>& value) {
  if (value) make_constraint(Object{value->class_name}, Shape{1}, nullptr);
}

void require_absent(std::string_view field, const std::optional<Object>& value) {
  if (value)
    throw ConfigError(
        fmt::format("{} '{}' is not supported yet; remove it", field, value->class_name));
}

ValueId as_picture(LayerBuilder& builder, ValueId input) {
  ValueType type = builder.type(input);
  if (type.shape.rank() == 3) return input;
  if (type.layout == Layout::kBlocked && type.picture[0] * type.picture[1] > 1) {
    // A flattened picture: its features are no channels.
    input = builder.graph().in_layout(input, Layout::kPlain, builder.name(), Phase::kForward);
    type = builder.type(input);
  }
  if (type.layout == Layout::kPlain) {
    type.shape = Shape{1, 1, static_cast<std::int64_t>(type.shape.count())};
  } else {
    type.shape = type.picture;
  }
  return builder.graph().add_view(input, type, builder.name() + "/picture");
}

ValueId as_row(LayerBuilder& builder, ValueId input) {
  ValueType type = builder.type(input);
  if (type.shape.rank() == 1) return input;
  type.shape = Shape{static_cast<std::int64_t>(type.shape.count())};
  return builder.graph().add_view(input, type, builder.name() + "/row");
}

}  // namespace surefit
