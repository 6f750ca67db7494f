// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/batch_norm_parts.hpp"

namespace surefit {
namespace {

bool has_output(kernels::Activation activation) {
  return activation != kernels::Activation::kLinear;
}

// The operands that both passes over the picture begin with.
template <typename Args>
void set_common(Args& args, const Task& task) {
  args.src = task.inputs[0].at(task.begin);
  args.src_stride = float_stride(task.inputs[0]);
  args.diff_dst = task.inputs[1].at(task.begin);
  args.diff_dst_stride = float_stride(task.inputs[1]);
  args.mean = task.inputs[2].at(task.begin);
  args.inv_std = task.inputs[3].at(task.begin);
  if (has_output(args.activation)) {
    args.dst = task.inputs[4].at(task.begin);
    args.dst_stride = float_stride(task.inputs[4]);
  }
  args.sample_end = task.end - task.begin;
}

class BnBackwardPartialsOp final : public Op {
 public:
  explicit BnBackwardPartialsOp(kernels::Activation activation) : activation_(activation) {}
  std::string_view kind() const override { return "batch_norm_backward_partials"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {partials_type(inputs[0])};
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    return bn_pass_traits(inputs[0], 5);
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    auto args = bn_args<kernels::BatchNormBackwardStatsArgs>(inputs[0]);
    args.activation = activation_;
    const auto run = [args](const Task& task) {
      kernels::BatchNormBackwardStatsArgs own = args;
      set_common(own, task);
      own.partials = task.outputs[0].at<double>(task.begin);
      kernels::table().batch_norm.backward_stats(own);
    };
    return make_kernel("own", [run](const Task& task) { for_each_run(task, task.inputs[2], run); });
  }

 private:
  kernels::Activation activation_;
};

// Sum -> means of dy and of dy xhat over the batch, and the gradients of gamma and beta.
class BnBackwardStatisticsOp final : public Op {
 public:
  BnBackwardStatisticsOp(std::int64_t channels, std::int64_t pixels)
      : channels_(channels), pixels_(pixels) {}
  std::string_view kind() const override { return "batch_norm_backward_statistics"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    const ValueType plain = vector_type(channels_);
    return {padded_vector(channels_), padded_vector(channels_), plain, plain};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kBatchFree;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    kernels::BatchNormBackwardCombineArgs args;
    args.channels = channels_;
    args.samples = 1;
    return make_kernel("own", [args, pixels = pixels_](const Task& task) {
      kernels::BatchNormBackwardCombineArgs own = args;
      own.pixels = pixels * task.step->samples;
      own.partials = task.inputs[0].at<double>();
      own.mean_dy = task.outputs[0].at();
      own.mean_dy_xhat = task.outputs[1].at();
      own.diff_gamma = task.outputs[2].at();
      own.diff_beta = task.outputs[3].at();
      kernels::table().batch_norm.backward_combine(own);
    });
  }

 private:
  std::int64_t channels_, pixels_;
};

// ..., [gamma], [mean dy, mean dy xhat] -> gradient of the picture, and behind a relu that of the
// residual.
class BnBackwardApplyOp final : public Op {
 public:
  explicit BnBackwardApplyOp(const BnApply& options) : options_(options) {}
  std::string_view kind() const override { return "batch_norm_backward"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    std::vector<ValueType> types = {inputs[0]};
    if (splits()) types.push_back(inputs[0]);
    return types;
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits = bn_pass_traits(inputs[0], 6);
    traits.in_place_input = splits() ? 0 : 1;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    auto args = bn_args<kernels::BatchNormBackwardApplyArgs>(inputs[0]);
    args.activation = options_.activation;
    const auto run = [args, options = options_, two = splits()](const Task& task) {
      kernels::BatchNormBackwardApplyArgs own = args;
      set_common(own, task);
      std::size_t next = has_output(args.activation) ? 5 : 4;
      if (options.scale) own.gamma = task.inputs[next++].at();
      if (options.batch_statistics) {
        own.mean_dy = task.inputs[next++].at(task.begin);
        own.mean_dy_xhat = task.inputs[next++].at(task.begin);
      }
      own.diff_src = task.outputs[0].at(task.begin);
      own.diff_src_stride = float_stride(task.outputs[0]);
      if (two) {
        own.diff_residual = task.outputs[1].at(task.begin);
        own.diff_residual_stride = float_stride(task.outputs[1]);
      }
      kernels::table().batch_norm.backward_apply(own);
    };
    return make_kernel("own", [run](const Task& task) { for_each_run(task, task.inputs[2], run); });
  }

 private:
  bool splits() const { return options_.residual && has_output(options_.activation); }
  BnApply options_;
};

}  // namespace

std::shared_ptr<const Op> make_bn_backward_partials_op(kernels::Activation activation) {
  return std::make_shared<BnBackwardPartialsOp>(activation);
}
std::shared_ptr<const Op> make_bn_backward_statistics_op(std::int64_t channels,
                                                         std::int64_t pixels) {
  return std::make_shared<BnBackwardStatisticsOp>(channels, pixels);
}
std::shared_ptr<const Op> make_bn_backward_apply_op(const BnApply& options) {
  return std::make_shared<BnBackwardApplyOp>(options);
}

}  // namespace surefit
