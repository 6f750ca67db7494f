// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/structural.hpp"

#include "base/check.hpp"
#include "engine/kernels/table.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/kernel.hpp"

namespace surefit {
namespace {

struct Picture {
  std::int64_t pixels = 0, channels = 0;
};

Picture picture_of(const Shape& shape) {
  return {shape[0] * shape[1], shape[2]};
}

void convert(const Picture& picture, bool to_blocked, const Task& task) {
  kernels::PictureArgs args;
  args.channels = picture.channels;
  args.pixels = picture.pixels;
  set_operands(args, task.inputs[0], task.outputs[0], task);
  const auto& layout = kernels::table().layout;
  (to_blocked ? layout.picture_to_blocked : layout.blocked_to_picture)(args);
}

class ConvertOp final : public Op {
 public:
  explicit ConvertOp(Layout to) : to_(to) {}
  std::string_view kind() const override {
    return to_ == Layout::kBlocked ? "to_blocked" : "to_plain";
  }

  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    ValueType type = inputs[0];
    if (to_ == Layout::kBlocked) {
      if (type.shape.rank() != 3) {
        throw ConfigError(fmt::format("expected a picture (height, width, channels); got {}",
                                      type.shape.to_string()));
      }
      type.picture = type.shape;
    }
    type.layout = to_;
    return {type};
  }

  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.flops_per_sample = static_cast<double>(inputs[0].stored_count()) * 4;
    return traits;
  }

  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs,
                               std::span<const ValueType> outputs, int) const override {
    const Picture picture =
        picture_of(to_ == Layout::kBlocked ? outputs[0].picture : inputs[0].picture);
    const bool to_blocked = to_ == Layout::kBlocked;
    return make_kernel(
        "own", [picture, to_blocked](const Task& task) { convert(picture, to_blocked, task); });
  }

  void gradient(GradientBuilder& builder) const override {
    const Layout back = to_ == Layout::kBlocked ? Layout::kPlain : Layout::kBlocked;
    ValueId gradient = builder.output_gradient(0);
    const ValueType& wanted = builder.type(builder.input(0));
    if (back == Layout::kBlocked) {
      gradient = builder.emit1(std::make_shared<ReblockOp>(wanted), {gradient});
    } else {
      gradient = builder.emit1(std::make_shared<ConvertOp>(back), {gradient});
    }
    builder.set_input_gradient(0, gradient);
  }

 private:
  // The way back from a plain row to the blocked picture it came from, whose extents the row no
  // longer shows.
  class ReblockOp final : public Op {
   public:
    explicit ReblockOp(ValueType type) : type_(std::move(type)) {}
    std::string_view kind() const override { return "to_blocked"; }
    std::vector<ValueType> infer(std::span<const ValueType>) const override { return {type_}; }
    OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
      return {};
    }
    std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                                 int) const override {
      const Picture picture = picture_of(type_.picture);
      return make_kernel("own", [picture](const Task& task) { convert(picture, true, task); });
    }

   private:
    ValueType type_;
  };

  Layout to_;
};

// The sum of two gradients that meet; per sample, or whole parameters.
class AccumulateOp final : public Op {
 public:
  std::string_view kind() const override { return "accumulate"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {inputs[0]};
  }

  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = inputs[0].batched ? BatchRole::kPerSample : BatchRole::kBatchFree;
    traits.in_place_input = inputs[0].batched ? 0 : kNone;
    traits.flops_per_sample = static_cast<double>(inputs[0].stored_count());
    return traits;
  }

  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    const auto count = static_cast<std::int64_t>(inputs[0].stored_count());
    const bool batched = inputs[0].batched;
    return make_kernel("own", [count, batched](const Task& task) {
      const std::int64_t end = batched ? task.end : task.begin + 1;
      for (std::int64_t n = task.begin; n < end; ++n) {
        const std::int64_t sample = batched ? n : 0;
        kernels::table().elementwise.add(task.inputs[0].at(sample), task.inputs[1].at(sample),
                                         task.outputs[0].at(sample), count);
      }
    });
  }
};

}  // namespace

StructuralOps structural_ops() {
  StructuralOps ops;
  ops.convert = [](Layout to) -> std::shared_ptr<const Op> {
    return std::make_shared<ConvertOp>(to);
  };
  ops.accumulate = []() -> std::shared_ptr<const Op> { return std::make_shared<AccumulateOp>(); };
  return ops;
}

}  // namespace surefit
