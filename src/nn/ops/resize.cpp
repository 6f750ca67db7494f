// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/resize.hpp"

#include "engine/kernels/table.hpp"
#include "nn/ops/conv.hpp"
#include "nn/ops/kernel.hpp"
#include "nn/ops/sample_op.hpp"

namespace surefit {
namespace {

// The picture with other extents, in its own layout.
ValueType resized(const ValueType& picture, std::int64_t height, std::int64_t width) {
  ValueType type = picture;
  type.shape = Shape{height, width, picture.shape[2]};
  if (type.layout == Layout::kBlocked) type.picture = type.shape;
  return type;
}

kernels::PlaceArgs place_args(const ValueType& from, const ValueType& to, int top, int left) {
  const bool blocked = from.layout == Layout::kBlocked;
  kernels::PlaceArgs args;
  args.src_height = from.shape[0];
  args.src_width = from.shape[1];
  args.dst_height = to.shape[0];
  args.dst_width = to.shape[1];
  args.top = top;
  args.left = left;
  args.lanes = blocked ? kChannelBlock : from.shape[2];
  args.block_end = blocked ? channel_blocks(from) : 1;
  return args;
}

std::function<void(const Task&)> place(const ValueType& from, const ValueType& to, int top,
                                       int left) {
  return [args = place_args(from, to, top, left)](const Task& task) {
    kernels::PlaceArgs own = args;
    set_operands(own, task.inputs[0], task.outputs[0], task);
    kernels::table().layout.place(own);
  };
}

class PadOp final : public Op {
 public:
  PadOp(const Sides& pad, bool outer_picture) : pad_(pad), outer_picture_(outer_picture) {}
  std::string_view kind() const override { return "zero_padding"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    const Shape& shape = inputs[0].shape;
    return {
        resized(inputs[0], shape[0] + pad_.top + pad_.bottom, shape[1] + pad_.left + pad_.right)};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType> outputs) const override {
    OpTraits traits;
    traits.flops_per_sample = static_cast<double>(outputs[0].stored_count());
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs,
                               std::span<const ValueType> outputs, int) const override {
    return make_kernel("own", place(inputs[0], outputs[0], pad_.top, pad_.left));
  }
  std::shared_ptr<const Op> absorb(const Op& consumer, std::size_t consumer_input,
                                   std::span<const ValueType>) const override {
    const auto* conv = dynamic_cast<const ConvOp*>(&consumer);
    return conv != nullptr && consumer_input == 0 ? conv->with_padding(pad_, outer_picture_)
                                                  : nullptr;
  }
  void gradient(GradientBuilder& builder) const override {
    const ValueType inner = builder.type(builder.input(0)), outer = builder.type(builder.output(0));
    builder.set_input_gradient(
        0, builder.emit1(make_sample_op({.kind = "zero_padding_backward",
                                         .outputs = {inner},
                                         .run = place(outer, inner, -pad_.top, -pad_.left)}),
                         {builder.output_gradient(0)}));
  }

 private:
  Sides pad_;
  bool outer_picture_;
};

using UpsampleFn = void (*)(const kernels::UpsampleArgs&);

std::function<void(const Task&)> upsample(const kernels::UpsampleArgs& args, UpsampleFn function) {
  return [args, function](const Task& task) {
    kernels::UpsampleArgs own = args;
    set_operands(own, task.inputs[0], task.outputs[0], task);
    function(own);
  };
}

}  // namespace

std::shared_ptr<const Op> make_pad_op(const Sides& pad, bool outer_picture) {
  return std::make_shared<PadOp>(pad, outer_picture);
}

std::shared_ptr<const Op> make_crop_op(const ValueType& picture, const Sides& crop) {
  const ValueType inner = resized(picture, picture.shape[0] - crop.top - crop.bottom,
                                  picture.shape[1] - crop.left - crop.right);
  const auto gradient = [picture, inner, crop](GradientBuilder& builder) {
    builder.set_input_gradient(
        0, builder.emit1(make_sample_op({.kind = "cropping_backward",
                                         .outputs = {picture},
                                         .run = place(inner, picture, crop.top, crop.left)}),
                         {builder.output_gradient(0)}));
  };
  return make_sample_op({.kind = "cropping",
                         .outputs = {inner},
                         .run = place(picture, inner, -crop.top, -crop.left),
                         .gradient = gradient});
}

std::shared_ptr<const Op> make_upsample_op(const Shape& picture, const Pair& factor,
                                           bool bilinear) {
  const ValueType small = ValueType::blocked(picture);
  const ValueType large =
      ValueType::blocked({picture[0] * factor.h, picture[1] * factor.w, picture[2]});
  kernels::UpsampleArgs args;
  args.height = picture[0];
  args.width = picture[1];
  args.factor_h = factor.h;
  args.factor_w = factor.w;
  args.block_end = channel_blocks(small);
  const auto& table = kernels::table().layout;
  const auto back = bilinear ? table.upsample_bilinear_backward : table.upsample_nearest_backward;
  const auto gradient = [small, args, back](GradientBuilder& builder) {
    builder.set_input_gradient(
        0, builder.emit1(make_sample_op({.kind = "upsampling_backward",
                                         .outputs = {small},
                                         .flops_per_element =
                                             static_cast<double>(args.factor_h) * args.factor_w,
                                         .run = upsample(args, back)}),
                         {builder.output_gradient(0)}));
  };
  return make_sample_op(
      {.kind = "upsampling",
       .outputs = {large},
       .layout = Layout::kBlocked,
       .flops_per_element = bilinear ? 6.0 : 1.0,
       .run = upsample(args, bilinear ? table.upsample_bilinear : table.upsample_nearest),
       .gradient = gradient});
}

}  // namespace surefit
