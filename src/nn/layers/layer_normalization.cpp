// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/sample_normalization.hpp"

namespace surefit {
namespace {

class LayerNormalizationImpl final : public LayerImpl {
 public:
  explicit LayerNormalizationImpl(const LayerNormalization& spec) : spec_(spec) {
    check_sample_normalization(spec);
    if (spec.rms_scaling)
      throw ConfigError(
          "[LayerNormalization] rms_scaling; expected false, other is not supported yet");
  }
  Shape infer(std::span<const Shape> inputs) const override {
    if (inputs.size() != 1 || inputs[0].rank() == 0) throw ConfigError("expected one input");
    parameters(inputs[0]);
    return inputs[0];
  }
  ValueId build(LayerBuilder& builder, std::span<const ValueId> inputs) const override {
    SampleNorm norm;
    norm.type.shape = builder.type(inputs[0]).shape;
    const Shape shape = parameters(norm.type.shape);
    norm.columns = static_cast<std::int64_t>(shape.count());
    norm.rows = static_cast<std::int64_t>(norm.type.shape.count()) / norm.columns;
    return emit_sample_norm(builder, spec_, norm, shape, inputs[0]);
  }

 private:
  // The normalised axes, which must be the last ones.
  Shape parameters(const Shape& input) const {
    const auto rank = static_cast<std::int64_t>(input.rank());
    std::vector<std::int64_t> axes;
    for (const std::int64_t axis : spec_.axis.values)
      axes.push_back(axis < 0 ? axis + rank : axis - 1);
    std::sort(axes.begin(), axes.end());
    std::vector<std::int64_t> dims;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] != rank - static_cast<std::int64_t>(axes.size() - i)) axes.clear();
      if (!axes.empty()) dims.push_back(input[static_cast<std::size_t>(axes[i])]);
    }
    if (axes.empty() || axes[0] < 0) {
      throw ConfigError(fmt::format("axis; expected the last axes of {}; got {}", input.to_string(),
                                    to_config(spec_.axis).to_string()));
    }
    return Shape(std::move(dims));
  }
  LayerNormalization spec_;
};

}  // namespace

LayerPtr make_layer(const LayerNormalization& spec) {
  return std::make_shared<LayerNormalizationImpl>(spec);
}

}  // namespace surefit
