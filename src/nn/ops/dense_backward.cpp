// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/dense_backward.hpp"

#include <algorithm>
#include <tuple>

#include "base/check.hpp"
#include "engine/kernels/table.hpp"
#include "nn/ops/dense_cut.hpp"
#include "nn/ops/kernel.hpp"

namespace surefit {
namespace {

using kernels::DenseShape;

constexpr std::int64_t kStripRows = 512;  // of a kernel with many outputs

void backward_bias(const DenseShape& shape, const Task& task, const Operand& diff_bias) {
  kernels::DenseBackwardBiasArgs args;
  args.shape = shape;
  args.diff_dst = task.inputs[1].at(task.begin);
  args.diff_dst_stride = float_stride(task.inputs[1]);
  args.diff_bias = diff_bias.at();
  args.sample_end = task.end - task.begin;
  args.first = task.begin == 0;
  kernels::table().dense.backward_bias(args);
}

// What a task needs besides its range of weights.
kernels::DenseBackwardWeightsArgs weights_args(const DenseShape& shape, const Task& task) {
  kernels::DenseBackwardWeightsArgs args;
  args.shape = shape;
  args.src = task.inputs[0].at(task.begin);
  args.src_stride = float_stride(task.inputs[0]);
  args.diff_dst = task.inputs[1].at(task.begin);
  args.diff_dst_stride = float_stride(task.inputs[1]);
  args.sample_end = task.end - task.begin;
  args.first = task.begin == 0;
  return args;
}

kernels::DenseBackwardDataArgs data_args(const DensePart& part, const Task& task,
                                         const Operand& diff_dst, const Operand& weights,
                                         const Operand& diff_src) {
  kernels::DenseBackwardDataArgs args;
  args.shape = part.shape;
  args.diff_dst = diff_dst.at(task.begin);
  args.diff_dst_stride = float_stride(diff_dst);
  args.weights = weights.at() + part.weights_begin;
  args.diff_src = diff_src.at(task.begin) + part.k_begin;
  args.diff_src_stride = float_stride(diff_src);
  args.sample_end = task.end - task.begin;
  args.k_end = part.shape.inputs;
  return args;
}

// The gradient of a large kernel, used up piece by piece: a piece is computed over all samples,
// applied, and forgotten. Inputs: x, dy, kernel, slots; output: the gradient of the bias.
class DenseUpdateOp final : public Op {
 public:
  DenseUpdateOp(const DenseShape& shape, bool bias, std::shared_ptr<const ElementUpdate> update,
                std::size_t slots)
      : shape_(shape), bias_(bias), update_(std::move(update)) {
    SUREFIT_CHECK(cut_dense(shape).k_parts == 1, "{} weights in parts",
                  kernels::dense_weight_count(shape));
    for (std::size_t i = 0; i <= slots; ++i) positions_.push_back(static_cast<int>(i) + 2);
  }
  std::string_view kind() const override { return "dense_update"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    std::vector<ValueType> types;
    if (bias_) types.push_back(vector_type(shape_.outputs));
    return types;
  }
  std::vector<int> mutated_inputs() const override { return positions_; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.blocks = static_cast<int>(cut_dense(shape_).unit_parts) + (bias_ ? 1 : 0);
    traits.flops_per_sample = 2.0 * static_cast<double>(shape_.inputs * shape_.outputs);
    traits.thread_scratch_bytes =
        static_cast<std::size_t>(kStripRows * kernels::kDensePanel) * sizeof(float);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own", [shape = shape_, cut = cut_dense(shape_),
                               update = update_](const Task& task) {
      check_whole_batch(task);
      if (task.block == cut.unit_parts) return backward_bias(shape, task, task.outputs[0]);
      auto* gradient = reinterpret_cast<float*>(task.thread_scratch);
      kernels::DenseBackwardWeightsArgs args = weights_args(shape, task);
      args.read_soon = true;
      const auto [first, last] = piece_of(kernels::dense_units(shape), cut.unit_step, task.block);
      for (args.unit_begin = first; args.unit_begin < last; ++args.unit_begin) {
        args.unit_end = args.unit_begin + 1;
        for (args.k_begin = 0; args.k_begin < shape.inputs; args.k_begin = args.k_end) {
          args.k_end = std::min(shape.inputs, args.k_begin + kStripRows);
          const std::int64_t begin =
              (args.unit_begin * shape.inputs + args.k_begin) * kernels::kDensePanel;
          args.diff_weights = gradient - begin;  // the kernel addresses the whole array
          kernels::table().dense.backward_weights(args);
          update->run(*task.step, task.inputs.subspan(2), begin,
                      (args.k_end - args.k_begin) * kernels::kDensePanel, gradient);
        }
      }
    });
  }

 private:
  DenseShape shape_;
  bool bias_;
  std::shared_ptr<const ElementUpdate> update_;
  std::vector<int> positions_;
};

// Where the gradient of the kernel is much larger than a batch of its input.
bool is_large(const DenseShape& shape) {
  return kernels::dense_units(shape) > 1 && shape.outputs >= 256 &&
         kernels::dense_weight_count(shape) >= 1 << 20;
}

class DenseBackwardWeightsOp final : public Op {
 public:
  DenseBackwardWeightsOp(const DenseShape& shape, bool bias) : shape_(shape), bias_(bias) {}
  std::string_view kind() const override { return "dense_backward_weights"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    std::vector<ValueType> types = {vector_type(kernels::dense_weight_count(shape_))};
    if (bias_) types.push_back(vector_type(shape_.outputs));
    return types;
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    const DenseCut cut = cut_dense(shape_);
    traits.blocks = static_cast<int>(cut.blocks()) + (bias_ ? 1 : 0);
    traits.flops_per_sample = 2.0 * static_cast<double>(shape_.inputs * shape_.outputs);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    const DenseShape shape = shape_;
    const DenseCut cut = cut_dense(shape);
    return make_kernel("own", [shape, cut](const Task& task) {
      if (task.block == cut.blocks()) return backward_bias(shape, task, task.outputs[1]);
      const DensePart own = dense_part(shape, cut, cut.part_of(task.block));
      kernels::DenseBackwardWeightsArgs args = weights_args(own.shape, task);
      args.src += own.k_begin;
      args.diff_weights = task.outputs[0].at() + own.weights_begin;
      args.k_end = own.shape.inputs;
      std::tie(args.unit_begin, args.unit_end) =
          piece_of(kernels::dense_units(shape), cut.unit_step, cut.unit_part_of(task.block));
      kernels::table().dense.backward_weights(args);
    });
  }
  std::shared_ptr<const Op> absorb(const Op& consumer, std::size_t,
                                   std::span<const ValueType>) const override {
    auto update = is_large(shape_) ? consumer.element_update() : nullptr;
    if (update == nullptr) return nullptr;
    return std::make_shared<DenseUpdateOp>(shape_, bias_, std::move(update),
                                           consumer.mutated_inputs().size() - 1);
  }

 private:
  DenseShape shape_;
  bool bias_;
};

class DenseBackwardDataOp final : public Op {
 public:
  DenseBackwardDataOp(const DenseShape& shape, ValueType input)
      : shape_(shape), input_(std::move(input)) {}
  std::string_view kind() const override { return "dense_backward_data"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {input_}; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    const DenseCut cut = cut_dense(shape_);
    traits.blocks =
        static_cast<int>(cut.k_parts > 1 ? cut.k_parts : div_up(shape_.inputs, kStripRows));
    traits.samples_per_task = 64;
    traits.flops_per_sample = 2.0 * static_cast<double>(shape_.inputs * shape_.outputs);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own", [shape = shape_, cut = cut_dense(shape_)](const Task& task) {
      const bool parts = cut.k_parts > 1;
      const DensePart own = dense_part(shape, cut, parts ? task.block : 0);
      kernels::DenseBackwardDataArgs args =
          data_args(own, task, task.inputs[0], task.inputs[1], task.outputs[0]);
      if (!parts)
        std::tie(args.k_begin, args.k_end) = piece_of(shape.inputs, kStripRows, task.block);
      kernels::table().dense.backward_data(args);
    });
  }

 private:
  DenseShape shape_;
  ValueType input_;
};

// All three at once by `kernel`, where there is one and `update` is its rule; otherwise false, with
// nothing done. `arrays` are those of the rule that go along with the weights.
template <typename Rule, typename... Arrays>
bool backward_by(void (*kernel)(const kernels::DenseBackwardUpdateArgs<Rule>&),
                 bool (ElementUpdate::*as_rule)(const StepContext&, std::span<const Operand>, Rule&)
                     const,
                 const DensePart& part, const kernels::DenseBackwardDataArgs& data,
                 const Task& task, const ElementUpdate& update, Arrays... arrays) {
  Rule rule;
  if (kernel == nullptr || !(update.*as_rule)(*task.step, task.inputs.subspan(3), rule) ||
      rule.grad_scale != 1.0f)
    return false;
  for (float** array : {&(rule.*arrays)...})
    if (*array != nullptr) *array += part.weights_begin;
  kernel({.data = data,
          .src = task.inputs[0].at(task.begin) + part.k_begin,
          .src_stride = float_stride(task.inputs[0]),
          .update = rule});
  return true;
}

bool backward_at_once(const DensePart& part, const kernels::DenseBackwardDataArgs& data,
                      const Task& task, const ElementUpdate& update) {
  using kernels::AdamArgs, kernels::SgdArgs;
  const kernels::DenseKernels& dense = kernels::table().dense;
  return backward_by(dense.backward_adam, &ElementUpdate::as_adam, part, data, task, update,
                     &AdamArgs::weights, &AdamArgs::m, &AdamArgs::v) ||
         backward_by(dense.backward_sgd, &ElementUpdate::as_sgd, part, data, task, update,
                     &SgdArgs::weights, &SgdArgs::velocity);
}

// Both gradients of a layer that is cut along its inputs, and in batches of few samples the update
// of its kernel: what a thread has read of x, dy and W is at hand for all three. Strip by strip of
// inputs: first the weights' gradient, then that of x, which may take x's place, then the update.
// Inputs: x, dy, kernel; with an update the kernel once more and its slots. Outputs: the gradients
// of the kernel (none with an update), x and the bias.
class DenseBackwardOp final : public Op {
 public:
  DenseBackwardOp(const DenseShape& shape, bool bias, ValueType input)
      : shape_(shape), bias_(bias), input_(std::move(input)) {}
  std::string_view kind() const override {
    return update_ ? "dense_backward_update" : "dense_backward";
  }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    std::vector<ValueType> types;
    if (!update_) types.push_back(vector_type(kernels::dense_weight_count(shape_)));
    types.push_back(input_);
    if (bias_) types.push_back(vector_type(shape_.outputs));
    return types;
  }
  std::vector<int> mutated_inputs() const override { return positions_; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.blocks = static_cast<int>(strips_.count()) + (bias_ ? 1 : 0);
    traits.in_place_input = 0;
    traits.in_place_output = update_ ? 0 : 1;
    traits.flops_per_sample = 4.0 * static_cast<double>(shape_.inputs * shape_.outputs);
    if (update_) {
      traits.sample_grain = samples_;
      traits.thread_scratch_bytes =
          static_cast<std::size_t>(kernels::dense_weight_count({strips_.step, shape_.outputs})) *
          sizeof(float);
    }
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own", [shape = shape_, strips = strips_,
                               update = update_](const Task& task) {
      const std::size_t first = update ? 0 : 1;  // of the outputs behind the kernel's gradient
      if (task.block == strips.count()) return backward_bias(shape, task, task.outputs[first + 1]);
      if (update) check_whole_batch(task);
      const DenseStrip strip = strips.at(shape, task.block);
      kernels::DenseBackwardDataArgs data =
          data_args(strip.part, task, task.inputs[1], task.inputs[2], task.outputs[first]);
      data.k_begin = strip.begin;
      data.k_end = strip.end;
      if (update && backward_at_once(strip.part, data, task, *update)) return;
      kernels::DenseBackwardWeightsArgs weights = weights_args(strip.part.shape, task);
      weights.src += strip.part.k_begin;
      weights.unit_end = kernels::dense_units(shape);
      if (update) {
        weights.shape.inputs = strip.end - strip.begin;
        weights.src += strip.begin;
        weights.diff_weights = reinterpret_cast<float*>(task.thread_scratch);
        weights.k_end = weights.shape.inputs;
      } else {
        weights.diff_weights = task.outputs[0].at() + strip.part.weights_begin;
        weights.k_begin = strip.begin;
        weights.k_end = strip.end;
      }
      kernels::table().dense.backward_weights(weights);
      kernels::table().dense.backward_data(data);
      if (!update) return;
      strip.for_ranges([&](std::int64_t begin, std::int64_t count, std::int64_t at) {
        update->run(*task.step, task.inputs.subspan(3), begin, count, weights.diff_weights + at);
      });
    });
  }
  std::shared_ptr<const Op> absorb_few(const Op& consumer, std::int64_t samples) const override {
    auto update = update_ || samples > kFewSamples ? nullptr : consumer.element_update();
    if (update == nullptr) return nullptr;
    auto joint = std::make_shared<DenseBackwardOp>(*this);
    joint->update_ = std::move(update);
    joint->samples_ = static_cast<int>(samples);
    for (std::size_t i = 0; i < consumer.mutated_inputs().size(); ++i)
      joint->positions_.push_back(static_cast<int>(i) + 3);
    return joint;
  }

 private:
  // Beyond, an update is a small part of a step, and groups smaller than the batch are faster.
  static constexpr std::int64_t kFewSamples = kernels::kDenseFewSamples;

  DenseShape shape_;
  bool bias_;
  ValueType input_;
  DenseStrips strips_{shape_};
  std::shared_ptr<const ElementUpdate> update_;  // or none
  std::vector<int> positions_;
  int samples_ = 1;
};

}  // namespace

std::shared_ptr<const Op> make_dense_backward_op(const DenseShape& shape, bool bias,
                                                 const ValueType& input) {
  return std::make_shared<DenseBackwardOp>(shape, bias, input);
}
std::shared_ptr<const Op> make_dense_backward_weights_op(const DenseShape& shape, bool bias) {
  return std::make_shared<DenseBackwardWeightsOp>(shape, bias);
}
std::shared_ptr<const Op> make_dense_backward_data_op(const DenseShape& shape,
                                                      const ValueType& input) {
  return std::make_shared<DenseBackwardDataOp>(shape, input);
}

}  // namespace surefit
