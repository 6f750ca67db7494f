// SPDX-License-Identifier: Apache-2.0
#include "nn/ops/batch_norm.hpp"

#include <cstring>

#include "base/check.hpp"
#include "graph/autodiff.hpp"
#include "nn/ops/activation.hpp"
#include "nn/ops/batch_norm_parts.hpp"

namespace surefit {
namespace {

class BnPartialsOp final : public Op {
 public:
  std::string_view kind() const override { return "batch_norm_partials"; }
  Layout preferred_layout(std::size_t, const ValueType&) const override { return Layout::kBlocked; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {partials_type(inputs[0])};
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    return bn_pass_traits(inputs[0], 3);
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    auto args = bn_args<kernels::BatchNormStatsArgs>(inputs[0]);
    return make_kernel("own", [args](const Task& task) {
      kernels::BatchNormStatsArgs own = args;
      own.src = task.inputs[0].at(task.begin);
      own.src_stride = float_stride(task.inputs[0]);
      own.partials = task.outputs[0].at<double>(task.begin);
      own.sample_end = task.end - task.begin;
      kernels::table().batch_norm.stats(own);
    });
  }
  // The apply node carries the gradient through the statistics; nothing flows back through here.
  void gradient(GradientBuilder&) const override {}
};

class BnSumOp final : public Op {
 public:
  std::string_view kind() const override { return "batch_norm_sum"; }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    ValueType type = inputs[0];
    type.batched = false;
    return {type};
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kReduction;
    traits.flops_per_sample = static_cast<double>(inputs[0].stored_count());
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    const std::size_t count = inputs[0].stored_count();
    return make_kernel("own", [count](const Task& task) {
      double* sum = task.outputs[0].at<double>();
      for (std::int64_t n = task.begin; n < task.end; ++n) {
        const double* partial = task.inputs[0].at<double>(n);
        for (std::size_t i = 0; i < count; ++i) sum[i] = n == 0 ? partial[i] : sum[i] + partial[i];
      }
    });
  }
  void gradient(GradientBuilder&) const override {}
};

class BnStatisticsOp final : public Op {
 public:
  BnStatisticsOp(std::int64_t channels, std::int64_t pixels, double epsilon)
      : channels_(channels), pixels_(pixels), epsilon_(static_cast<float>(epsilon)) {}
  std::string_view kind() const override { return "batch_norm_statistics"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    return {padded_vector(channels_), padded_vector(channels_)};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kBatchFree;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    kernels::BatchNormCombineArgs args;
    args.channels = channels_;
    args.samples = 1;  // the sum over samples is already one
    args.epsilon = epsilon_;
    return make_kernel("own", [args, pixels = pixels_](const Task& task) {
      kernels::BatchNormCombineArgs own = args;
      own.pixels = pixels * task.step->samples;
      own.partials = task.inputs[0].at<double>();
      own.mean = task.outputs[0].at();
      own.inv_std = task.outputs[1].at();
      kernels::table().batch_norm.combine(own);
    });
  }
  void gradient(GradientBuilder&) const override {}

 private:
  std::int64_t channels_, pixels_;
  float epsilon_;
};

class BnUpdateOp final : public Op {
 public:
  BnUpdateOp(std::int64_t channels, std::int64_t pixels, double momentum)
      : channels_(channels), pixels_(pixels), momentum_(static_cast<float>(momentum)) {}
  std::string_view kind() const override { return "batch_norm_update"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override { return {}; }
  std::vector<int> mutated_inputs() const override { return {0, 1}; }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kBatchFree;
    traits.thread_scratch_bytes =
        2 * static_cast<std::size_t>(round_up(channels_, kChannelBlock)) * sizeof(float);
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    kernels::BatchNormCombineArgs args;
    args.channels = channels_;
    args.samples = 1;
    args.momentum = momentum_;
    return make_kernel("own", [args, pixels = pixels_](const Task& task) {
      kernels::BatchNormCombineArgs own = args;
      own.pixels = pixels * task.step->samples;
      own.partials = task.inputs[2].at<double>();
      own.mean = reinterpret_cast<float*>(task.thread_scratch);
      own.inv_std = own.mean + round_up(args.channels, kChannelBlock);
      own.moving_mean = task.inputs[0].at();
      own.moving_variance = task.inputs[1].at();
      kernels::table().batch_norm.combine(own);
    });
  }

 private:
  std::int64_t channels_, pixels_;
  float momentum_;
};

class BnMovingOp final : public Op {
 public:
  BnMovingOp(std::int64_t channels, double epsilon)
      : channels_(channels), epsilon_(static_cast<float>(epsilon)) {}
  std::string_view kind() const override { return "batch_norm_moving"; }
  std::vector<ValueType> infer(std::span<const ValueType>) const override {
    return {padded_vector(channels_), padded_vector(channels_)};
  }
  OpTraits traits(std::span<const ValueType>, std::span<const ValueType>) const override {
    OpTraits traits;
    traits.role = BatchRole::kBatchFree;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType>, std::span<const ValueType>,
                               int) const override {
    return make_kernel("own", [channels = channels_, epsilon = epsilon_](const Task& task) {
      kernels::table().batch_norm.from_moving(channels, task.inputs[0].at(), task.inputs[1].at(),
                                              epsilon, task.outputs[0].at(), task.outputs[1].at());
    });
  }
  void gradient(GradientBuilder&) const override {}

 private:
  std::int64_t channels_;
  float epsilon_;
};

class BnApplyOp final : public Op {
 public:
  explicit BnApplyOp(const BnApply& options) : options_(options) {}
  std::string_view kind() const override {
    if (options_.residual) return activated() ? "batch_norm_add_relu" : "batch_norm_add";
    return activated() ? "batch_norm_relu" : "batch_norm";
  }
  Layout preferred_layout(std::size_t index, const ValueType& type) const override {
    return index == 0 || index == residual_input() ? Layout::kBlocked : type.layout;
  }
  std::vector<ValueType> infer(std::span<const ValueType> inputs) const override {
    return {inputs[0]};
  }
  OpTraits traits(std::span<const ValueType> inputs, std::span<const ValueType>) const override {
    OpTraits traits = bn_pass_traits(inputs[0], 4);
    traits.in_place_input = 0;
    return traits;
  }
  std::unique_ptr<Kernel> bind(std::span<const ValueType> inputs, std::span<const ValueType>,
                               int) const override {
    auto args = bn_args<kernels::BatchNormApplyArgs>(inputs[0]);
    args.activation = options_.activation;
    const auto apply = [args, options = options_](const Task& task) {
      kernels::BatchNormApplyArgs own = args;
      own.src = task.inputs[0].at(task.begin);
      own.src_stride = float_stride(task.inputs[0]);
      own.mean = task.inputs[1].at(task.begin);
      own.inv_std = task.inputs[2].at(task.begin);
      std::size_t next = 3;
      if (options.scale) own.gamma = task.inputs[next++].at();
      if (options.center) own.beta = task.inputs[next++].at();
      if (options.residual) {
        own.residual = task.inputs[next].at(task.begin);
        own.residual_stride = float_stride(task.inputs[next]);
      }
      own.dst = task.outputs[0].at(task.begin);
      own.dst_stride = float_stride(task.outputs[0]);
      own.sample_end = task.end - task.begin;
      kernels::table().batch_norm.apply(own);
    };
    return make_kernel("own",
                       [apply](const Task& task) { for_each_run(task, task.inputs[1], apply); });
  }

  std::shared_ptr<const Op> absorb(const Op& consumer, std::size_t,
                                   std::span<const ValueType>) const override {
    BnApply joint = options_;
    if (activated()) return nullptr;
    if (const auto activation = relu_kind(consumer)) {
      joint.activation = *activation;
      return std::make_shared<BnApplyOp>(joint);
    }
    const auto* add = dynamic_cast<const AddOp*>(&consumer);
    if (add == nullptr || add->terms() != 2 || options_.residual) return nullptr;
    joint.residual = true;
    return std::make_shared<BnApplyOp>(joint);
  }

  void gradient(GradientBuilder& builder) const override {
    const ValueType picture = builder.type(builder.input(0));
    const ValueId diff_dst = builder.output_gradient(0);
    std::vector<ValueId> common = {builder.input(0), diff_dst, builder.input(1), builder.input(2)};
    if (activated()) common.push_back(builder.output(0));
    const std::size_t gamma = 3, beta = options_.scale ? 4 : 3;
    const bool wants_parameters =
        (options_.scale && builder.wants(gamma)) || (options_.center && builder.wants(beta));
    const bool residual = options_.residual && builder.wants(residual_input());
    const bool wants_pictures = builder.wants(0) || (residual && activated());
    std::vector<ValueId> statistics;
    const bool wants_statistics = options_.batch_statistics && wants_pictures;
    if (wants_parameters || wants_statistics) {
      const ValueId partials =
          builder.emit1(make_bn_backward_partials_op(options_.activation), common);
      const std::int64_t channels = channels_of(picture), pixels = pixels_of(picture);
      if (wants_parameters || options_.ghost_batch == 0) {
        const ValueId sum = builder.emit1(make_bn_sum_op(), {partials});
        statistics = builder.emit(make_bn_backward_statistics_op(channels, pixels), {sum},
                                  Category::kGradients);
        if (options_.scale) builder.set_input_gradient(gamma, statistics[2]);
        if (options_.center) builder.set_input_gradient(beta, statistics[3]);
      }
      if (wants_statistics && options_.ghost_batch > 0) {
        statistics = builder.emit(
            make_bn_ghost_backward_statistics_op(channels, pixels, options_.ghost_batch),
            {partials});
      }
    }
    if (options_.residual && !activated()) builder.set_input_gradient(residual_input(), diff_dst);
    if (!wants_pictures) return;
    std::vector<ValueId> inputs = common;
    if (options_.scale) inputs.push_back(builder.input(gamma));
    if (options_.batch_statistics) inputs.insert(inputs.end(), {statistics[0], statistics[1]});
    const auto outputs = builder.emit(make_bn_backward_apply_op(options_), inputs);
    builder.set_input_gradient(0, outputs[0]);
    if (outputs.size() > 1) builder.set_input_gradient(residual_input(), outputs[1]);
  }

 private:
  bool activated() const { return options_.activation != kernels::Activation::kLinear; }
  std::size_t residual_input() const {
    if (!options_.residual) return static_cast<std::size_t>(-1);
    return std::size_t{3} + (options_.scale ? 1 : 0) + (options_.center ? 1 : 0);
  }
  BnApply options_;
};

}  // namespace

std::shared_ptr<const Op> make_bn_partials_op() {
  return std::make_shared<BnPartialsOp>();
}
std::shared_ptr<const Op> make_bn_sum_op() {
  return std::make_shared<BnSumOp>();
}
std::shared_ptr<const Op> make_bn_statistics_op(std::int64_t channels, std::int64_t pixels,
                                                double epsilon) {
  return std::make_shared<BnStatisticsOp>(channels, pixels, epsilon);
}
std::shared_ptr<const Op> make_bn_update_op(std::int64_t channels, std::int64_t pixels,
                                            double momentum) {
  return std::make_shared<BnUpdateOp>(channels, pixels, momentum);
}
std::shared_ptr<const Op> make_bn_moving_op(std::int64_t channels, double epsilon) {
  return std::make_shared<BnMovingOp>(channels, epsilon);
}
std::shared_ptr<const Op> make_bn_apply_op(const BnApply& options) {
  return std::make_shared<BnApplyOp>(options);
}

}  // namespace surefit
