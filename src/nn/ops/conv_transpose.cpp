// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/conv_transpose.hpp"

#include "engine/kernels/table.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/conv_blocked.hpp"
#include "nn/ops/conv_task.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

using kernels::ConvShape;

// (picture, prepared weights, kernel). The kernel is read by the backward pass only.
class ConvTransposeOp final : public Op {
 public:
  ConvTransposeOp(const ConvShape& shape, ConvAlgorithm algorithm)
      : shape_(shape),
        algorithm_(algorithm),
        pass_(make_conv_backward_data_op(shape, algorithm,
                                         ValueType::blocked({shape.h, shape.w, shape.ic}))) {}
  std::string_view kind() const override { return "conv2d_transpose"; }
  Layout preferred_layout(std::size_t index, const ValueType& type) const override {
    return index == 0 ? Layout::kBlocked : type.layout;
  }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return pass_->infer(inputs);
  }
  OpTraits traits(std::span<const ValueType> inputs,
                  std::span<const ValueType> outputs) const override {
    return pass_->traits(inputs, outputs);
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs,
                               std::span<const ValueType> outputs, int threads) const override {
    return pass_->bind(inputs, outputs, threads);
  }
  void gradient(GradientBuilder& builder) const override {
    const ValueId diff_dst = builder.output_gradient(0);
    if (builder.wants(2)) {
      builder.set_input_gradient(2,
                                 builder.emit1(make_conv_backward_weights_op(shape_, algorithm_),
                                               {diff_dst, builder.input(0)}, Category::kGradients));
    }
    if (builder.wants(0)) {
      builder.set_input_gradient(0, builder.emit1(make_blocked_conv_op(shape_, algorithm_, false),
                                                  {diff_dst, builder.input(2)}));
    }
  }

 private:
  ConvShape shape_;
  ConvAlgorithm algorithm_;
  std::shared_ptr<const Op> pass_;
};

std::shared_ptr<const Op> make_bias_op(const ValueType& picture) {
  const std::int64_t pixels = picture.picture[0] * picture.picture[1],
                     channels = picture.picture[2];
  const auto run = [pixels, blocks = channel_blocks(picture)](const Task& task) {
    kernels::BiasAdd args;
    args.pixels = pixels;
    args.blocks = blocks;
    args.src = task.inputs[0].at(task.begin);
    args.src_stride = float_stride(task.inputs[0]);
    args.bias = task.inputs[1].at();
    args.dst = task.outputs[0].at(task.begin);
    args.dst_stride = float_stride(task.outputs[0]);
    kernels::table().conv_bias.add(args, samples(task));
  };
  const auto gradient = [pixels, channels](GradientBuilder& builder) {
    builder.set_input_gradient(0, builder.output_gradient(0));
    if (!builder.wants(1)) return;
    builder.set_input_gradient(
        1, builder.emit1(make_bias_gradient_op(channels, pixels), {builder.output_gradient(0)},
                         Category::kGradients));
  };
  return make_sample_op({.kind = "bias",
                         .outputs = {picture},
                         .in_place_input = 0,
                         .run = run,
                         .gradient = gradient});
}

}  // namespace

ValueId emit_conv_transpose(LayerBuilder& builder, const ConvShape& shape, ConvAlgorithm algorithm,
                            ValueId picture, ValueId kernel, ValueId bias) {
  const auto form = make_backward_weights_form_op(shape, algorithm);
  const ValueId weights = form == nullptr ? kernel : builder.emit1(form, {kernel});
  const ValueId y = builder.emit1(std::make_shared<ConvTransposeOp>(shape, algorithm),
                                  {picture, weights, kernel});
  if (bias == kNone) return y;
  return builder.emit1(make_bias_op(builder.type(y)), {y, bias});
}

}  // namespace surefit
